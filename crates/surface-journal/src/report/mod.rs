//! One run as one HTML file.
