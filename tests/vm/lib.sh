# lib.sh - what the virtual machines of the tests have in common: kernels, the contents of
# an initramfs, and QEMU.
#
# Sourced by a POSIX sh with `root` set to the source tree. Kernels come through apt-get, are
# unpacked and not installed, and stay in $SBX_GUEST_CACHE, or else in sbx-guest below
# $XDG_CACHE_HOME or ~/.cache: outside of the source tree, each put there in one step under a
# lock. Everything else lies in a directory for one run below it, which is held by a lock of
# its own and removed at the end; what a killed run has left, the next one removes. A guest
# ends with the process that started it. Emulated in software, so no KVM and no root needed.
#
# A guest's time goes by its instructions (2 ns each), not by the host's clock: however busy the
# host is, for the guest it is quiet, and nothing times out there that would not otherwise. And
# when nothing runs in it, its clock jumps to the next timer: waiting costs nothing. So a guest
# has no device with which it waits for the host, a disk for example.
# shellcheck shell=sh disable=SC2154,SC2034 # shared with the script that sources this file
# shellcheck source=tools/lib.sh
. "$root/tools/lib.sh"

# modprobe and mke2fs are where an ordinary user does not look.
PATH=$PATH:/usr/sbin:/sbin
cache=${SBX_GUEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/sbx-guest}
work=''
machine=''

skip() {
    say "skipped: $*"
    exit 77
}

# The lane itself does not work: nothing is known about what was to be run.
defect() {
    complain "guest: $*"
    exit 125
}

# kernel_package KERNEL: the meta package; the real one changes its name with every update.
kernel_package() {
    case $1 in
    6.1) echo linux-image-cloud-amd64 ;;
    6.12) echo linux-image-6.12-cloud-amd64 ;;
    *) defect "no such kernel: $1 (6.1 and 6.12 are known)" ;;
    esac
}

# Under the lock and into a directory of its own first, so that a kernel that is there is
# whole.
fetch_kernel() {
    meta=$(kernel_package "$1") || exit 125
    [ "$(uname -m)" = x86_64 ] || skip "the guests are for x86_64"
    mkdir -p -- "$cache" || exit 125
    exec 8>"$cache/fetch.lock"
    flock 8 || exit 125
    if [ ! -d "$cache/linux-$1" ]; then
        fetched=$cache/fetched.$1
        rm -rf -- "$fetched"
        mkdir -- "$fetched" || exit 125
        download_kernel "$meta" "$fetched" 8>&- && mv -- "$fetched/files" "$cache/linux-$1"
        fetch_status=$?
        rm -rf -- "$fetched"
        [ "$fetch_status" -eq 0 ] || skip "no kernel $1: $meta could not be fetched"
    fi
    exec 8>&-
    say "kernel $1: $(kernel_version "$1")"
}

# download_kernel META DIRECTORY: what META depends on, unpacked in DIRECTORY/files.
download_kernel() {
    command -v apt-get >/dev/null 2>&1 || skip "there is no apt-get here"
    download_package "$1" "$2" || {
        # The lists may be absent or old.
        as_root=''
        [ "$(id -u)" -eq 0 ] || as_root='sudo -n'
        run_apt update >"$2/update.log" 2>&1
        download_package "$1" "$2" || return 1
    }
    dpkg -x "$2"/*.deb "$2/files" || return 1
    # Where /lib is a link in the package's system, the modules are below /usr.
    if [ ! -d "$2/files/lib/modules" ]; then
        mkdir -p -- "$2/files/lib" && ln -s ../usr/lib/modules "$2/files/lib/modules" || return 1
    fi
    version=$(version_below "$2/files")
    [ -n "$version" ] && depmod -b "$2/files" "$version"
}

download_package() {
    package=$(apt-cache depends "$1" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
    [ -n "$package" ] || return 1
    # As whoever runs this: apt's own user may not write here.
    (cd -- "$2" && apt-get -q -o APT::Sandbox::User= download "$package" >download.log 2>&1 </dev/null) && return 0
    tail -n 3 -- "$2/download.log" >&2
    return 1
}

version_below() {
    for image in "$1"/boot/vmlinuz-*; do
        [ ! -f "$image" ] || printf '%s\n' "${image##*/vmlinuz-}"
    done
}

kernel_version() {
    version_below "$cache/linux-$1"
}

# need_guest KERNEL: skips unless this machine can run one.
need_guest() {
    kernel_package "$1" >/dev/null || exit 125
    for tool in qemu-system-x86_64 cpio modprobe setpriv flock timeout ldd; do
        command -v "$tool" >/dev/null 2>&1 || skip "$tool is not installed"
    done
    if [ ! -x /bin/busybox ] || ldd /bin/busybox >/dev/null 2>&1; then
        skip "busybox-static is not installed"
    fi
    [ -n "$(kernel_version "$1")" ] || skip "no kernel $1 here; sh tests/vm/guest --fetch $1"
}

# A directory for this run, $work, with the contents of the initramfs below $work/files.
begin_work() {
    umask 022
    mkdir -p -- "$cache" || exit 125
    remove_leftovers
    work=$(mktemp -d "$cache/run.XXXXXX") || exit 125
    trap end_work EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    exec 9>"$work/lock"
    flock -n 9 || defect "cannot lock $work"
    mkdir -- "$work/files" || exit 125
}

# What runs have left that nobody holds any more; one that just begins has no lock yet, but
# is young.
remove_leftovers() {
    find "$cache" -maxdepth 1 -name 'run.*' -type d -mmin +5 | while IFS= read -r left; do
        if [ ! -e "$left/lock" ] || flock -n "$left/lock" true; then
            rm -rf -- "$left"
        fi
    done
}

end_work() {
    trap - EXIT
    if [ -n "$machine" ]; then
        kill "$machine" 2>/dev/null
        wait "$machine"
    fi
    rm -rf -- "$work"
}

# share_files LIST DIRECTORY: the files and directories that LIST names, at the same paths
# below DIRECTORY, and the shared libraries that they need.
share_files() {
    sed 's,^/,,' "$1" >"$work/relative" || return 1
    tar -C / --exclude=CMakeFiles -h -cf "$work/share.tar" -T "$work/relative" &&
        tar -C "$2" -xf "$work/share.tar" || return 1
    rm -f -- "$work/share.tar"
    # ldd fails for what is no dynamic program, and says so.
    while IFS= read -r path; do
        find "$path" -type f -perm -u+x ! -path '*/CMakeFiles/*' -exec ldd {} + 2>/dev/null
    done <"$1" | sed -n 's/^.* => \(\/.*\) (0x[0-9a-f]*)$/\1/p; s/^[[:blank:]]*\(\/.*\) (0x[0-9a-f]*)$/\1/p' |
        sort -u >"$work/libraries"
    while IFS= read -r library; do
        mkdir -p -- "$2${library%/*}" && cp -L -- "$library" "$2$library" || return 1
    done <"$work/libraries"
}

# put_modules KERNEL DIRECTORY MODULE...: them and what they need, uncompressed; prints the
# names of the files in the order in which to load them.
put_modules() {
    kernel=$1
    directory=$2
    shift 2
    mkdir -p -- "$directory" || return 1
    for module in "$@"; do
        modprobe -d "$cache/linux-$kernel" -S "$(kernel_version "$kernel")" --show-depends "$module" || return 1
    done | sed -n 's/^insmod \(.*\.ko\(\.xz\)\{0,1\}\).*/\1/p' | awk '!seen[$0]++' | while IFS= read -r file; do
        name=${file##*/}
        case $name in
        *.xz) /bin/busybox unxz -c "$file" >"$directory/${name%.xz}" || return 1 ;;
        *) cp -- "$file" "$directory/$name" || return 1 ;;
        esac
        printf '%s\n' "${name%.xz}"
    done
}

# Not compressed: to expand it takes longer in an emulated machine than to read it.
pack_files() {
    (cd -- "$work/files" && find . -mindepth 1 | LC_ALL=C sort |
        cpio -o -H newc -R 0:0 --quiet) >"$work/initrd" || defect "cannot pack the initramfs"
}

# run_machine KERNEL SECONDS ARGUMENTS [QEMU-OPTION]...: boots $work/initrd and waits for the
# end. What the guest writes to its first three serial lines is in $work/console, output and
# results. Returns QEMU's status, 124 or 137 when the time was over.
run_machine() {
    kernel=$1
    seconds=$2
    arguments=$3
    shift 3
    : >"$work/results"
    # The acceleration by name, or an unfit /dev/kvm would be taken; q35, since microvm hangs at
    # times; a plain processor, which is a third faster than all that can be emulated.
    setpriv --pdeathsig KILL timeout -k 5 "$seconds" setpriv --pdeathsig KILL \
        qemu-system-x86_64 -accel tcg,tb-size=256 -icount shift=1,sleep=off -machine q35 -cpu qemu64,+rdrand,+rdseed -nodefaults -no-user-config \
        -no-reboot -display none -kernel "$cache/linux-$kernel/boot/vmlinuz-$(kernel_version "$kernel")" \
        -initrd "$work/initrd" -append "console=ttyS0 quiet cgroup_no_v1=all panic=-1 oops=panic random.trust_cpu=on cryptomgr.notests=1 nokaslr $arguments" \
        -serial "file:$work/console" -serial "file:$work/output" -serial "file:$work/results" \
        "$@" </dev/null >"$work/qemu.log" 2>&1 9>&- &
    machine=$!
    wait "$machine"
    machine_status=$?
    machine=''
    return "$machine_status"
}

# no_results KERNEL STATUS SECONDS: ends with what the machine said last, without the registers
# of a crash.
no_results() {
    tail -n 3 -- "$work/qemu.log" >&2
    if [ -f "$work/console" ]; then
        tr -d '\r' <"$work/console" | grep -vE 'Call Trace|^\[[^]]*\]  [ ?]|R[0-9A-Z]+: [0-9a-f]{16}' | tail -n 30 >&2
    fi
    case $2 in
    124 | 137) defect "kernel $1: not at its end after $3 s" ;;
    *) defect "kernel $1: no results (QEMU's status: $2)" ;;
    esac
}

# One word for sh.
quote() {
    printf "'%s'" "$(printf '%s\n' "$1" | sed "s/'/'\\\\''/g")"
}
