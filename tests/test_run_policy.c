/*
 * test_run_policy.c - what is seen inside of a sandbox, and what is refused: masks,
 * binds, the working directory, system roots, /proc, and that nothing is left of it.
 *
 * Tables of scenes (run_kit.h), each played as root, as an ordinary user, and with a
 * setuid bubblewrap.
 */
#include "tests/run_kit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 120.0

/* Somebody's files, where they must not be seen. */
#define HOMES                                                                            \
    "mkdir -p home/x/ws home/x/other home/y data; chmod 755 root; "                      \
    "for d in home home/x home/x/other home/y root data var; do echo s >$d/secret; "     \
    "done; "                                                                             \
    "echo 1 >home/x/ws/f; chown -R $ME:$ME home/x; "
#define TOOL "printf '#!/bin/sh\\necho ran; ls -A /home/x; ls -A /root\\n' >"
/* Names of all that is in the masked places. */
#define LIST "find /home /root /var /data -mindepth 1 2>/dev/null | sort; "

/* --- masks -------------------------------------------------------------------------- */

/* A procfs beside /proc, as a chroot or a container has it. */
#define OTHER_PROC                                                                       \
    "mkdir -p srv/p srv/q/p srv/here; mount -t proc proc srv/p && "                      \
    "mount --bind srv/p srv/q/p; "
/* What of one can be seen, and written. */
#define LOOK                                                                             \
    "look() { for d in \"$@\"; do [ ! -e $d/1 ] || echo sees $d; "                       \
    "[ ! -w $d/sys/kernel/core_pattern ] || echo writes $d; done; }; "
#define LOOK_AT "look "

static const struct sbx_scene masks[] = {
    {.name = "the homes of this host are empty",
     .inside = LIST "echo ran",
     .out = "ran\n"},
    {.name = "the homes of a host are empty",
     .stage = HOMES,
     .inside =
         LIST "cat /home/secret /var/secret 2>/dev/null; "
              "for d in /home /root /var /data; do touch $d/new 2>/dev/null && echo $d; "
              "done; true"},
    {.name = "a command in a home is refused",
     .stage = HOMES TOOL "home/x/tool; chmod 755 home/x/tool",
     .command = "/home/x/tool",
     .status = 125,
     .err = "/home/x/tool|--ro-bind"},
    {.name = "a command in root's home is refused",
     .stage = HOMES TOOL "root/tool; chmod 755 root/tool",
     .command = "/root/tool",
     .status = 125,
     .err = "/root/tool"},
    {.name = "a command that is a link into a home is refused",
     .stage = HOMES TOOL "home/x/tool; chmod 755 home/x/tool; ln -s /home/x/tool tool",
     .command = "/tool",
     .status = 125,
     .err = "/tool|--ro-bind"},
    {.name = "a command in a home, bound, is shown without its neighbours",
     .stage = HOMES TOOL "home/x/tool; chmod 755 home/x/tool",
     .options = "--ro-bind /home/x/tool",
     .command = "/home/x/tool",
     .out = "ran\ntool\n"},
    {.name = "a command right below the root does not show the root",
     .stage = "echo s >secret; mkdir private; echo s >private/f; "
              "printf '#!/bin/sh\\necho ran; ls -A /; ls -A /private\\n' >tool; chmod "
              "755 tool; "
              "mkdir srv",
     .command =
         "/bin/sh -c '/tool 2>/dev/null | grep -e ran -e secret -e private -e srv'",
     .options = "--ro-bind /tool",
     .out = "ran\n"},
    {.name = "nor when nothing was bound",
     .stage = "echo s >secret; printf '#!/bin/sh\\necho ran; [ ! -e /secret ]\\n' >tool; "
              "chmod 755 tool",
     .command = "/tool",
     .out = "ran\n"},
    {.name = "a command somewhere is shown alone",
     .before = "printf '#!/bin/sh\\nls -A %s\\n' \"$D/bin\" >tool; mkdir ../bin; "
               "mv tool ../bin; echo s >../bin/secret; chmod 755 ../bin/tool",
     .command = "\"$D/bin/tool\"",
     .out = "tool\n"},
    {.name = "a system root that leads into a mask is not shown",
     .stage = "rmdir opt; mkdir var/opt; echo s >var/opt/secret; ln -s var/opt opt",
     .inside = "cat /opt/secret /var/opt/secret 2>/dev/null; " LIST "echo ran",
     .out = "ran\n",
     .err = "/opt"},
    {.name = "a home that lies in a system root",
     .stage = "mkdir -p opt/home/x; echo s >opt/home/x/secret; rmdir home; "
              "ln -s opt/home home",
     .inside = "find /home/ /opt/home -mindepth 1; ls -A /opt",
     .out = "home\n"},
    {.name = "it is without the masks",
     .stage = "rmdir opt; mkdir var/opt; echo s >var/opt/shown; ln -s var/opt opt",
     .options = "--no-default-masks",
     .inside = "cat /opt/shown",
     .out = "s\n"},
    {.name = "a bind below a default mask is shown, and nothing beside it",
     .stage = HOMES,
     .options = "--bind /home/x/ws --chdir /home/x/ws",
     .inside = "cat f; echo 2 >g; cat g; cd /; " LIST,
     .out = "1\n2\n/home/x\n/home/x/ws\n/home/x/ws/f\n/home/x/ws/g\n"},
    {.name = "a bind at a default mask is shown",
     .stage = HOMES,
     .options = "--ro-bind /data",
     .inside = LIST,
     .out = "/data/secret\n"},
    {.name = "the root, bound, still has its masks",
     .stage = HOMES "mkdir srv; echo srv >srv/f",
     .options = "--ro-bind /",
     .inside = "cat /srv/f; " LIST
               "ls -A /sys 2>/dev/null; touch /srv/new 2>/dev/null && echo made; true",
     .out = "srv\n"},
    {.name = "the root of this host, bound, still has its masks",
     .options = "--ro-bind /",
     .inside = LIST "ls -A /sys 2>/dev/null; ls -d /usr",
     .out = "/usr\n"},
    {.name = "the root, bound as something else, still has its masks",
     .stage = HOMES "mkdir srv; echo srv >srv/f",
     .options = "--ro-bind /:/mnt/host",
     .inside = "cat /mnt/host/srv/f; find /mnt/host/home /mnt/host/root /mnt/host/var "
               "/mnt/host/data -mindepth 1; true",
     .out = "srv\n"},
    {.name = "another procfs below a bind",
     .stage = OTHER_PROC,
     .options = "--bind /srv --bind /srv/q:/srv/here",
     .inside = LOOK "ls -A /srv/p /srv/q/p /srv/here/p; " LOOK_AT "/srv/p /srv/q/p "
                    "/srv/here/p; touch /srv/p/x /srv/q/p/x 2>/dev/null; true",
     .out = "/srv/here/p:\n\n/srv/p:\n\n/srv/q/p:\n"},
    {.name = "another procfs, with the root",
     .stage = OTHER_PROC,
     .options = "--bind /",
     .inside = LOOK LOOK_AT "/srv/p /srv/q/p; ls -A /srv/p /srv/q/p",
     .out = "/srv/p:\n\n/srv/q/p:\n"},
    {.name = "another procfs, with the root under another name",
     .stage = OTHER_PROC,
     .options = "--bind /:/mnt/host",
     .inside = LOOK LOOK_AT "/mnt/host/srv/p /mnt/host/srv/q/p /mnt/host/proc"},
    {.name = "another procfs, below a system root",
     .stage = "mkdir -p opt/p; mount -t proc proc opt/p",
     .inside = LOOK LOOK_AT "/opt/p"},
    {.name = "another procfs itself is refused",
     .stage = OTHER_PROC,
     .options = "--bind /srv/p:/mnt",
     .status = 125,
     .err = "/srv/p|kernel"},
    {.name = "a part of another procfs is refused",
     .stage = OTHER_PROC "mkdir srv/k; mount --bind srv/p/sys/kernel srv/k;",
     .options = "--bind /srv/k:/mnt",
     .status = 125,
     .err = "/srv/k|kernel"},
    {.name = "the root without the masks",
     .stage = HOMES,
     .options = "--ro-bind / --no-default-masks",
     .inside = "cat /home/x/ws/f",
     .out = "1\n"},
    {.name = "the root and a workspace in a home",
     .stage = HOMES,
     .options = "--ro-bind / --bind /home/x/ws",
     .inside = "echo 2 >/home/x/ws/f; cat /home/x/ws/f; " LIST,
     .out = "2\n/home/x\n/home/x/ws\n/home/x/ws/f\n"},
    {.name = "an explicit mask hides a part of a bind",
     .before = "mkdir d; echo s >d/f; echo s >f; echo ok >k",
     .options = "--bind $W --mask $W/d --mask $W/f",
     .inside = "cat d/f f 2>/dev/null; ls -A d; cat k; "
               "(echo x >f) 2>/dev/null && echo written; "
               "(echo x >d/new) 2>/dev/null && echo written; "
               "rm -rf d f 2>/dev/null; mv f g 2>/dev/null; true",
     .out = "ok\n"},
    {.name = "a relative mask",
     .before = "mkdir d; echo s >d/f",
     .options = "--ro-bind . --mask d",
     .inside = "cat d/f 2>/dev/null; ls -A; ls -A d",
     .out = "d\n"},
    {.name = "a mask hides a file under the name that another bind gives it",
     .before = "mkdir d d/e; echo s >d/e/f",
     .options = "--bind $W/d:/srv --bind $W --mask $W/d/e",
     .inside = "cat /srv/e/f %W/d/e/f d/e/f 2>/dev/null; echo ran",
     .out = "ran\n"},
    {.name = "a mask through a link hides where that leads",
     .before = "mkdir d; echo s >d/f; ln -s d l",
     .options = "--bind $W --mask $W/l",
     .inside = "cat d/f l/f 2>/dev/null; echo ran",
     .out = "ran\n"},
    {.name = "a mask in a system root",
     .options = "--mask /etc/passwd",
     .needs = "[ -f /etc/passwd ]",
     .inside = "cat /etc/passwd 2>/dev/null; ls -d /etc",
     .out = "/etc\n"},
    {.name = "the same path as bind and mask",
     .before = "mkdir d",
     .options = "--bind $W/d --mask $W/d",
     .status = 125,
     .err = "%W/d|mask"},
    {.name = "the same path as bind and mask, by another name",
     .before = "mkdir d; ln -s d l",
     .options = "--bind $W/d --mask $W/l",
     .status = 125,
     .err = "mask"},
    {.name = "a bind below an explicit mask",
     .before = "mkdir -p d/e",
     .options = "--mask $W/d --bind $W/d/e",
     .status = 125,
     .err = "%W/d/e|mask"},
    {.name = "no mask",
     .options = "--mask $W/none",
     .status = 125,
     .err = "--mask|%W/none"},
    {.name = "the root as mask", .options = "--mask /", .status = 125, .err = "--mask"},
};

/* --- binds and the working directory ------------------------------------------------ */

#define B105 "mkdir real src; echo hello >src/x; ln -s \"$W/real\" abs; ln -s real rel"

static const struct sbx_scene binds[] = {
    {.name = "no source",
     .options = "--bind $W/none",
     .status = 125,
     .err = "--bind|%W/none"},
    {.name = "no read-only source",
     .options = "--ro-bind $W/none:/srv",
     .status = 125,
     .err = "--ro-bind|%W/none"},
    {.name = "a broken link as source",
     .before = "ln -s none link",
     .options = "--bind $W/link",
     .status = 125,
     .err = "%W/link"},
    {.name = "an empty source", .options = "--bind ''", .status = 125, .err = "--bind"},
    {.name = "writable and read-only",
     .before = "mkdir a b",
     .options = "--bind $W/a --ro-bind $W/b",
     .inside = "touch %W/a/new && echo made; touch %W/b/new 2>/dev/null || echo refused",
     .out = "made\nrefused\n",
     .leaves = "a/new"},
    {.name = "nested binds",
     .before = "mkdir -p a/b",
     .options = "--ro-bind $W --bind $W/a/b",
     .inside = "touch new a/new 2>/dev/null; touch a/b/new; ls -A a/b",
     .out = "new\n",
     .leaves = "a/b/new"},
    {.name = "nested binds, the other way",
     .before = "mkdir -p a/b",
     .options = "--ro-bind $W/a --bind $W",
     .inside = "touch new; touch a/new a/b/new 2>/dev/null; ls -A",
     .out = "a\nnew\n",
     .leaves = "new"},
    {.name = "a file alone",
     .before = "echo 1 >f; echo s >secret",
     .options = "--bind $W/f",
     .inside = "ls -A %W; cat %W/f; echo 22 >%W/f; rm %W/f 2>/dev/null || echo stays",
     .out = "f\n1\nstays\n",
     .leaves = "f"},
    {.name = "a source through a link",
     .before = "mkdir real; echo hello >real/x; ln -s real link",
     .options = "--ro-bind $W/link:/srv",
     .inside = "cat /srv/x; [ ! -L /srv ] && echo ran",
     .out = "hello\nran\n"},
    {.name = "a source through a link, at its own place",
     .before = "mkdir real; echo hello >real/x; ln -s real link",
     .options = "--ro-bind $W/link --chdir $W/link",
     .inside = "cat x",
     .out = "hello\n"},
    {.name = "another place",
     .before = "mkdir src; echo hello >src/x",
     .options = "--bind $W/src:/srv/deep/place --chdir /srv/deep/place",
     .inside = "pwd; cat x; touch y",
     .out = "/srv/deep/place\nhello\n",
     .leaves = "src/y"},
    {.name = "a place through an absolute link",
     .before = B105,
     .options = "--bind $W --ro-bind $W/src:$W/abs",
     .inside = "cat abs/x real/x",
     .out = "hello\nhello\n"},
    {.name = "a place through a relative link",
     .before = B105,
     .options = "--bind $W --ro-bind $W/src:$W/rel",
     .inside = "cat rel/x real/x",
     .out = "hello\nhello\n"},
    {.name = "a place that is a link outside only",
     .before = B105,
     .options = "--ro-bind $W/src:$W/abs --ro-bind $W/src:$W/rel",
     .inside = "find %W | sort",
     .out = "%W\n%W/abs\n%W/abs/x\n%W/rel\n%W/rel/x\n"},
    {.name = "a place through a broken link",
     .before = "mkdir src; ln -s none link",
     .options = "--bind $W --ro-bind $W/src:$W/link",
     .status = 125,
     .err = "%W"},
    {.name = "a working directory reached by a link",
     .before = B105,
     .options = "--bind $W",
     .setting = "cd abs;",
     .inside = "pwd",
     .out = "%W/real\n"},
    {.name = "a place in a bind that is not there",
     .before = "mkdir src",
     .options = "--bind $W --bind $W/src:$W/new",
     .status = 125,
     .err = "%W/new"},
    {.name = "a directory on a file",
     .before = "mkdir src; echo 1 >f",
     .options = "--bind $W --bind $W/src:$W/f",
     .status = 125,
     .err = "%W/f"},
    {.name = "a place that climbs",
     .options = "--bind $W:/srv/../etc",
     .status = 125,
     .err = ".."},
    {.name = "over a system root",
     .before = "mkdir e; echo 1 >e/f",
     .options = "--bind $W/e:/etc",
     .inside = "ls -A /etc; touch /etc/g",
     .out = "f\n",
     .leaves = "e/g"},
    {.name = "over a system root, read-only",
     .before = "mkdir e; echo 1 >e/f",
     .options = "--ro-bind $W/e:/etc",
     .inside = "ls -A /etc",
     .out = "f\n"},
    {.name = "over what is fresh",
     .before = "mkdir t s; echo 1 >t/f",
     .options = "--bind $W/t:/tmp --bind $W/s:/dev/shm",
     .inside = "ls -A /tmp; touch /tmp/g /dev/shm/h",
     .out = "f\n",
     .leaves = "t/g s/h"},
    {.name = "the root of something else",
     .options = "--bind $W:/",
     .status = 125,
     .err = "sbx-run: "},
    {.name = "what is mounted in a source comes along, and is as writable",
     .stage = "mkdir -p srv/sub; mount -t tmpfs none srv/sub; chmod 777 srv/sub; "
              "echo 1 >srv/sub/f; chmod 666 srv/sub/f",
     .options = "--ro-bind /srv",
     .inside = "cat /srv/sub/f; touch /srv/sub/g 2>/dev/null || echo refused; "
               "(echo 2 >/srv/sub/f) 2>/dev/null || echo refused",
     .out = "1\nrefused\nrefused\n"},
    {.name = "what is mounted in a source can be masked",
     .stage = "mkdir -p srv/sub; mount -t tmpfs none srv/sub; echo s3cret >srv/sub/f",
     .options = "--bind /srv --mask /srv/sub",
     .inside = "cat /srv/sub/f 2>/dev/null; ls -A /srv /srv/sub",
     .out = "/srv:\nsub\n\n/srv/sub:\n"},
    {.name = "two sources at one place",
     .before = "mkdir a b",
     .options = "--bind $W/a:/srv --bind $W/b:/srv",
     .status = 125,
     .err = "/srv"},
    {.name = "the host's processes",
     .options = "--ro-bind /proc",
     .status = 125,
     .err = "/proc"},
    {.name = "below a bind",
     .before = "mkdir -p a/b",
     .options = "--bind $W --chdir $W/a/b",
     .inside = "pwd",
     .out = "%W/a/b\n"},
    {.name = "up and down in a bind",
     .before = "mkdir -p a/b c",
     .options = "--bind $W --chdir $W/a/../c",
     .inside = "pwd",
     .out = "%W/c\n"},
    {.name = "out of a bind by ..",
     .before = "mkdir a",
     .options = "--bind $W/a --chdir $W/a/..",
     .status = 125,
     .err = "--chdir"},
    {.name = "far out of a bind by ..",
     .options = "--bind $W --chdir $W/../../../etc",
     .status = 125,
     .err = "--chdir"},
    {.name = "out of a bind by a link",
     .before = "mkdir a; ln -s .. a/up",
     .options = "--bind $W/a --chdir $W/a/up",
     .status = 125,
     .err = "--chdir"},
    {.name = "out of a bind by an absolute link",
     .before = "ln -s /usr usr",
     .options = "--bind $W --chdir $W/usr",
     .status = 125,
     .err = "--chdir"},
    {.name = "no directory",
     .options = "--bind $W --chdir $W/none",
     .status = 125,
     .err = "--chdir|%W/none"},
    {.name = "a file as directory",
     .before = "echo 1 >f",
     .options = "--bind $W --chdir $W/f",
     .status = 125,
     .err = "--chdir|%W/f"},
    {.name = "a masked directory",
     .before = "mkdir a",
     .options = "--bind $W --mask $W/a --chdir $W/a",
     .status = 125,
     .err = "--chdir"},
    {.name = "a read-only directory",
     .before = "echo 1 >f",
     .options = "--ro-bind $W --chdir $W",
     .inside =
         "cat f; touch new 2>/dev/null || echo refused; "
         "rm f 2>/dev/null || echo refused; chmod 777 f 2>/dev/null || echo refused",
     .out = "1\nrefused\nrefused\nrefused\n"},
    {.name = "a read-only directory in a home",
     .stage = HOMES,
     .options = "--ro-bind /home/x/ws --chdir /home/x/ws",
     .inside = "cat f; touch g 2>/dev/null; ls -A; ls -A ..",
     .out = "1\nf\nws\n"},
    {.name = "the caller's directory, where it is not shown",
     .inside = "pwd",
     .out = "/\n"},
};

/* --- system roots, fresh places, /proc ---------------------------------------------- */

#define RESOLVER                                                                         \
    "umount etc; mkdir run/resolve; echo secret >run/secret; "                           \
    "echo 'nameserver 192.0.2.1' >run/resolve/conf; echo secret >run/resolve/secret; "   \
    "ln -s ../run/resolve/conf etc/resolv.conf"

static const struct sbx_scene places[] = {
    {.name = "/bin/sh", .command = "/bin/sh -c 'echo ran'", .out = "ran\n"},
    {.name = "the loader",
     .needs =
         "[ -x /lib64/ld-linux-x86-64.so.2 ] && [ -x /bin/echo ] && ! [ -L /bin/echo ]",
     .command = "/lib64/ld-linux-x86-64.so.2 /bin/echo ran",
     .out = "ran\n"},
    {.name = "programs where /bin is no link",
     .stage = "rm bin; mkdir bin; cp /bin/sh bin/sh",
     .inside = "[ ! -L /bin ] && for f in /bin/*; do echo $f; done",
     .out = "/bin/sh\n"},
    {.name = "a name that is looked up", .command = "echo ran", .out = "ran\n"},
    {.name = "what is there, is there",
     .inside = "ls -d /usr /etc /bin/sh",
     .out = "/bin/sh\n/etc\n/usr\n"},
    {.name = "nothing else is in the root",
     .inside = "ls -A / | grep -vx -e bin -e sbin -e 'lib.*' -e usr -e etc -e opt -e dev "
               "-e tmp -e run -e home -e root -e var -e data -e proc -e sys; "
               "ls -A /run /tmp /sys /proc 2>/dev/null | grep -v -e : -e '^$'; true"},
    {.name = "system places cannot be written",
     .inside = "for d in / /usr /etc /opt /dev /bin /usr/bin /lib; do "
               "[ -d $d ] && (: >$d/sbx-new) 2>/dev/null && echo $d; "
               "mkdir $d/sbx-new 2>/dev/null && echo $d; done; true"},
    {.name = "fresh places can",
     .inside = "for d in /tmp /run /dev/shm; do echo 1 >$d/f && cat $d/f; done; "
               "echo x >/dev/null; head -c 4 /dev/zero | wc -c",
     .out = "1\n1\n1\n4\n"},
    {.name = "fresh places have nothing of the host's",
     .needs = "[ -w /dev/shm ]",
     .before = "touch /dev/shm/$MARK",
     .inside = "ls -A /dev/shm /run /tmp | grep -v -e : -e '^$'; true",
     .after = "rm /dev/shm/$MARK"},
    {.name = "they have a bound",
     .who = SBX_PLAIN,
     .options = "--tmp-size 4M",
     .inside =
         "for d in /tmp /run /dev/shm; do head -c 9000000 /dev/zero 2>/dev/null >$d/f; "
         "size=$(wc -c <$d/f); [ \"$size\" -le 4194304 ] && echo bound; "
         "head -c 400000 /dev/zero >$d/f && echo fits; done 2>/dev/null",
     .out = "bound\nfits\nbound\nfits\nbound\nfits\n"},
    {.name = "a bound that a setuid bubblewrap does not set",
     .who = SBX_SETUID,
     .options = "--tmp-size 1M",
     .status = 125,
     .err = "--tmp-size"},
    {.name = "a bound of nothing",
     .options = "--tmp-size 0",
     .status = 125,
     .err = "--tmp-size"},
    {.name = "a bound that is none",
     .options = "--tmp-size 1Q",
     .status = 125,
     .err = "--tmp-size"},
    {.name = "devices",
     .inside = "cd /dev; for f in * ; do [ -c $f ] && echo $f; done",
     .out = "full\nnull\nptmx\nrandom\ntty\nurandom\nzero\n"},
    {.name = "name servers that lie in /run",
     .stage = RESOLVER,
     .inside = "cat /etc/resolv.conf; find /run -type f",
     .out = "nameserver 192.0.2.1\n/run/resolve/conf\n"},
    {.name = "not without a network",
     .stage = RESOLVER,
     .options = "--network none",
     .inside = "find /run -type f; echo ran",
     .out = "ran\n"},
    {.name = "name servers that lie in a mask",
     .stage = "umount etc; echo s >var/conf; ln -s /var/conf etc/resolv.conf",
     .inside = "cat /etc/resolv.conf 2>/dev/null; " LIST "echo ran",
     .out = "ran\n",
     .err = "/etc/resolv.conf"},
    {.name = "no network that is none",
     .options = "--network some",
     .status = 125,
     .err = "--network"},
    {.name = "no /proc", .inside = "ls -A /proc 2>/dev/null; true"},
    {.name = "a private /proc",
     .options = "--proc",
     .inside = "set -- /proc/[0-9]*; [ $# -le 3 ] && [ -e /proc/$$/stat ] && "
               "cat /proc/self/cmdline | tr '\\0' ' '",
     .out = "cat /proc/self/cmdline "},
    {.name = "/dev/fd",
     .options = "--proc",
     .inside = "echo 1 | cat /dev/fd/0; echo 2 | cat /dev/stdin; echo 3 >>/dev/fd/1; "
               "echo 4 >>/dev/stdout",
     .out = "1\n2\n3\n4\n"},
    {.name = "process substitution",
     .options = "--proc",
     .needs = "command -v bash",
     .command = "bash -c 'cat <(echo 1)'",
     .out = "1\n"},
    {.name = "only /proc/self/exe",
     .options = "--self-exe /usr/bin/env",
     .needs = "command -v readlink",
     .inside = "readlink /proc/self/exe; find /proc | sort",
     .out = "/usr/bin/env\n/proc\n/proc/self\n/proc/self/exe\n"},
    {.name = "both",
     .options = "--proc --self-exe /usr/bin/env",
     .status = 125,
     .err = "--proc|--self-exe"},
};

/* --- playing them ------------------------------------------------------------------- */

#define PLAY(name)                                                                       \
    START_TEST(test_##name)                                                              \
    {                                                                                    \
        enum sbx_identity identity = (enum sbx_identity)_i;                              \
        if (sbx_kit_identity(identity)) {                                                \
            sbx_scenes_play(name, sizeof(name) / sizeof((name)[0]), identity);           \
        }                                                                                \
    }                                                                                    \
    END_TEST

PLAY(masks)
PLAY(binds)
PLAY(places)

/* --- the plan ----------------------------------------------------------------------- */

#define PLAN                                                                             \
    "--bind $W --mask $W/d --env PUBLIC=s3cret-1 --env TOKEN --env-from $W/vars "        \
    "--rlimit nofile=64 --network none --plan"

/* Twice, to the same bytes. */
static const struct sbx_scene plan_scene = {
    .name = "a plan",
    .before = "mkdir d; echo FILED=s3cret-2 >vars",
    .setting = "export TOKEN=s3cret-3;",
    .launcher = "sh -c 'a=$(\"$@\") && [ \"$a\" = \"$(\"$@\")\" ] && echo \"$a\"' sh",
    .options = PLAN,
    .inside = "echo ran >%W/ran",
    .out = "*",
    .never = "s3cret",
};

/* The caller's. */
static char *plan_of(enum sbx_identity identity, const struct sbx_scene *scene)
{
    struct sbx_play play = {.scene = scene, .identity = identity};
    ck_assert(sbx_play_start(&play));
    sbx_play_finish(&play);
    char *text = strdup(play.out);
    ck_assert_ptr_nonnull(text);
    sbx_play_done(&play);
    return text;
}

static void expect_object(const char *text)
{
    json_error_t error;
    json_t *plan = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(json_is_object(plan), "no JSON object: %s: %s", error.text, text);
    const char *line_feed = strchr(text, '\n');
    ck_assert(line_feed != NULL && line_feed[1] == '\0');
    json_decref(plan);
}

START_TEST(test_plan)
{
    static const char *const told[] = {"TOKEN", "FILED", "PUBLIC", "nofile",
                                       "/work", "/home", "none",   "bwrap"};
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    char *plan = plan_of(identity, &plan_scene);
    expect_object(plan);
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        ck_assert_msg(strstr(plan, told[i]) != NULL, "nothing of %s in %s", told[i],
                      plan);
    }
    free(plan);
}
END_TEST

/* What does not work is said where one looks before it is run. */
START_TEST(test_plan_without_proc)
{
    static const struct sbx_scene scene = {
        .name = "a plan without /proc", .options = "--plan", .out = "*", .err = "*"};
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    char *text = plan_of(identity, &scene);
    ck_assert_msg(strstr(text, "/dev/fd") != NULL && strstr(text, "--proc") != NULL,
                  "nothing of /dev/fd and --proc in %s", text);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_policy");
    TCase *tcase = sbx_fixture_case(suite, "policy", SECONDS);
    tcase_add_loop_test(tcase, test_masks, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_binds, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_places, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_plan, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_plan_without_proc, 0, SBX_IDENTITY_COUNT);
    return sbx_fixture_run(suite);
}
