//! An edge over a broker, in two lines.
//!
//! Room: surface.

use crate::control::LinkLine;
use crate::view::text::grouped;

/// For people: where it leads, the sum, and what else is not 0.
pub(crate) fn lines(link: &LinkLine) -> [String; 2] {
    let half = if link.sends { "sends to" } else { "receives from" };
    let mut sum = Vec::new();
    let parts = [
        ("delivered", link.delivered),
        ("dropped", link.dropped),
        ("replaced", link.replaced),
        ("merged", link.merged),
        ("failed", link.failed),
        ("lost", link.lost),
        ("waiting", link.waiting),
        ("in flight", link.in_flight),
    ];
    for (what, number) in parts.into_iter().filter(|(what, number)| *number > 0 || *what == "delivered") {
        sum.push(format!("{} {what}", grouped(number)));
    }
    let verb = if link.sends { "put" } else { "received" };
    let sign = if link.adds_up { "=" } else { "≠" };
    let mut said = format!("   {} {verb} {sign} {}", grouped(link.put), sum.join(" + "));
    let others = [
        ("at the broker or further", link.stored),
        ("sent again", link.resent),
        ("redelivered", link.redelivered),
        ("duplicates dropped", link.duplicates),
        ("missing", link.missing),
        ("foreign messages removed", link.foreign),
        ("outages", link.outages),
    ];
    for (what, number) in others.into_iter().filter(|(_, number)| *number > 0) {
        said += &format!(" · {} {what}", grouped(number));
    }
    let away = link.away.as_ref().map_or_else(String::new, |why| format!(" · away: {why}"));
    [format!(" {} {half} {}{away}", link.node, link.address), said]
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::control::LinkLine;

    #[test]
    fn a_link_says_where_it_leads_and_what_became_of_every_message() {
        let link = LinkLine {
            node: "imu!publish".into(),
            address: "nats://127.0.0.1:4222/imu".into(),
            sends: true,
            put: 12_000,
            delivered: 11_000,
            waiting: 900,
            in_flight: 100,
            stored: 11_950,
            resent: 512,
            adds_up: true,
            ..LinkLine::default()
        };
        let [first, second] = lines(&link);
        assert_eq!(first, " imu!publish sends to nats://127.0.0.1:4222/imu");
        assert_eq!(
            second,
            "   12,000 put = 11,000 delivered + 900 waiting + 100 in flight · 11,950 at the broker or further · 512 sent again"
        );
    }
}
