// Makes the n-th call of one kind fail, in the process that is meant and in no other. For LD_PRELOAD.
//
//   FAULT_SIDE   client: `bursar run`; keeper: `bursar keep`
//   FAULT_CALL   write, sync, truncate, spawn, thread, send, recv or watch (by epoll)
//   FAULT_NTH    the first call that fails, from 1
//   FAULT_ERRNO  with what it fails
//   FAULT_STAYS  1: all later calls fail as well, until there is a file FAULT_HIT.fixed. Calls with a descriptor count only if that is a
//                file other than standard output and error: a full disk is meant, not the terminal or a pipe
//   FAULT_PATH   if given, only descriptors count whose file has this in its path
//   FAULT_HIT    made when the fault is injected, with a line that says where; a fault that does not stay is one process's only
//
// Calls of the C library are replaced. The program's own system calls, without the C library, are caught by Syscall User Dispatch
// (Linux 5.11, x86_64): everything that is not called from the C library's code raises SIGSYS, and is done in its handler.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif

static const char *wanted; // none in a process that is not meant
static long nth;
static int error;
static int stays;
static const char *hit;
static const char *part;
static char fixed[512];
static atomic_long seen;

static const char *name_of(int fd, char *target, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, target, size - 1);
    target[length > 0 ? length : 0] = 0;
    return target;
}

// Disks are full and broken; sockets, pipes and terminals only break once; what has no kind (an eventfd) is only interrupted.
static int can_fail(int fd) {
    struct stat about;
    if (!strcmp(wanted, "watch")) return 1;
    if (fstat(fd, &about)) return 0;
    char target[256];
    if (part && !strstr(name_of(fd, target, sizeof target), part)) return 0;
    if (stays) return fd > 2 && (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode));
    return (about.st_mode & S_IFMT) || error == EINTR;
}

// Says where the fault is. False if another process was first.
static int tell(const char *call, long count, int fd) {
    int how = stays ? O_APPEND : O_EXCL;
    int file = (int)syscall(SYS_openat, AT_FDCWD, hit, O_WRONLY | O_CREAT | O_CLOEXEC | how, 0600);
    if (file < 0) return 0;
    char target[256], line[512];
    int length = snprintf(line, sizeof line, "%s %ld on %s\n", call, count, name_of(fd, target, sizeof target));
    syscall(SYS_write, file, line, (size_t)length);
    syscall(SYS_close, file);
    return 1;
}

static int fails(const char *call, int fd) {
    if (!wanted || strcmp(call, wanted) || (fd >= 0 && !can_fail(fd))) return 0;
    long count = atomic_fetch_add(&seen, 1) + 1;
    if (count < nth || (count > nth && !stays)) return 0;
    int before = errno;
    int does = (!stays || syscall(SYS_faccessat, AT_FDCWD, fixed, F_OK)) && tell(call, count, fd);
    errno = does ? error : before;
    return does;
}

// ---- the C library's ----

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define REPLACE(call, result, name, params, args, fd)                                                                  \
    result name params {                                                                                               \
        static _Atomic(__typeof__(&name)) next;                                                                        \
        if (!next) next = NEXT(name);                                                                                  \
        return fails(call, fd) ? -1 : next args;                                                                       \
    }

REPLACE("write", ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size), fd)
REPLACE("write", ssize_t, writev, (int fd, const struct iovec *from, int count), (fd, from, count), fd)
REPLACE("write", ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at), fd)
REPLACE("write", ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at), fd)
REPLACE("sync", int, fsync, (int fd), (fd), fd)
REPLACE("sync", int, fdatasync, (int fd), (fd), fd)
REPLACE("truncate", int, ftruncate, (int fd, off_t size), (fd, size), fd)
REPLACE("truncate", int, ftruncate64, (int fd, off64_t size), (fd, size), fd)
REPLACE("send", ssize_t, send, (int fd, const void *from, size_t size, int how), (fd, from, size, how), fd)
REPLACE("send", ssize_t, sendto,
        (int fd, const void *from, size_t size, int how, const struct sockaddr *whom, socklen_t length),
        (fd, from, size, how, whom, length), fd)
REPLACE("send", ssize_t, sendmsg, (int fd, const struct msghdr *what, int how), (fd, what, how), fd)
REPLACE("recv", ssize_t, recv, (int fd, void *to, size_t size, int how), (fd, to, size, how), fd)
REPLACE("recv", ssize_t, recvfrom,
        (int fd, void *to, size_t size, int how, struct sockaddr *who, socklen_t *length),
        (fd, to, size, how, who, length), fd)
REPLACE("recv", ssize_t, recvmsg, (int fd, struct msghdr *what, int how), (fd, what, how), fd)
REPLACE("spawn", pid_t, fork, (void), (), -1)

#define SPAWN(name)                                                                                                    \
    int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *acts, const posix_spawnattr_t *attr,      \
             char *const argv[], char *const envp[]) {                                                                 \
        return fails("spawn", -1) ? error : NEXT(name)(pid, path, acts, attr, argv, envp);                             \
    }
SPAWN(posix_spawn)
SPAWN(posix_spawnp)

// ---- the program's own ----

#if defined(__x86_64__)
static unsigned long code_from, code_size;
static char selector = 1; // SYSCALL_DISPATCH_FILTER_BLOCK

static int is_c_library(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    const char *name = strrchr(info->dlpi_name, '/');
    if (!name || strncmp(name, "/libc.so", 8)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            code_from = info->dlpi_addr + part->p_vaddr;
            code_size = part->p_memsz;
        }
    }
    return 1;
}

static const char *kind(long number) {
    switch (number) {
    case SYS_write: case SYS_writev: case SYS_pwrite64: return "write";
    case SYS_fsync: case SYS_fdatasync: return "sync";
    case SYS_ftruncate: return "truncate";
    case SYS_clone: case SYS_clone3: case SYS_fork: case SYS_vfork: return "spawn";
    case SYS_sendto: case SYS_sendmsg: return "send";
    case SYS_recvfrom: case SYS_recvmsg: return "recv";
    case SYS_epoll_ctl: return "watch";
    default: return "";
    }
}

static void on_raw_call(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    int before = errno;
    long result = -1;
    if (!fails(kind(regs[REG_RAX]), (int)regs[REG_RDI]))
        result = syscall(regs[REG_RAX], regs[REG_RDI], regs[REG_RSI], regs[REG_RDX], regs[REG_R10], regs[REG_R8],
                         regs[REG_R9]);
    regs[REG_RAX] = result == -1 ? -errno : result;
    errno = before;
}

static void catch_raw_calls(void) {
    prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, code_from, code_size, &selector);
}

static void prepare_raw_calls(void) {
    dl_iterate_phdr(is_c_library, NULL);
    struct sigaction action = {.sa_sigaction = on_raw_call, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    if (code_size && !sigaction(SIGSYS, &action, NULL)) catch_raw_calls();
}
#else
static void catch_raw_calls(void) {}
static void prepare_raw_calls(void) {}
#endif

// Each thread asks for itself.
struct start {
    void *(*begin)(void *);
    void *with;
};

static void *begin(void *given) {
    struct start start = *(struct start *)given;
    free(given);
    catch_raw_calls();
    return start.begin(start.with);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*to_begin)(void *), void *with) {
    if (fails("thread", -1)) return error;
    if (!wanted) return NEXT(pthread_create)(thread, attr, to_begin, with);
    struct start *start = malloc(sizeof *start);
    *start = (struct start){to_begin, with};
    return NEXT(pthread_create)(thread, attr, begin, start);
}

// ---- who we are ----

__attribute__((constructor)) static void look(void) {
    const char *side = getenv("FAULT_SIDE"), *call = getenv("FAULT_CALL"), *count = getenv("FAULT_NTH");
    const char *number = getenv("FAULT_ERRNO"), *path = getenv("FAULT_HIT"), *all = getenv("FAULT_STAYS");
    if (!side || !call || !count || !number || !path) return;
    char line[256] = "", exe[256] = "";
    int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    syscall(SYS_read, file, line, sizeof line - 1);
    syscall(SYS_close, file);
    syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", exe, sizeof exe - 1);
    const char *name = strrchr(exe, '/'), *word = line + strlen(line) + 1;
    if (!name || strcmp(name, "/bursar") || strcmp(word, strcmp(side, "keeper") ? "run" : "keep")) return;
    nth = atol(count), error = atoi(number), stays = all && *all == '1', hit = path;
    part = getenv("FAULT_PATH");
    snprintf(fixed, sizeof fixed, "%s.fixed", hit);
    wanted = call;
    prepare_raw_calls();
}
