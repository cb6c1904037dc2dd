# Written by Gridwright. cloud-init runs it at every start of the machine, as root; systemd goes on from there.
# The log is read by administrators alone.
(umask 077; : >> "$root/var/log/gridwright-boot.log")
units="$root/etc/systemd/system"
mkdir -p "$units"
env | grep -i '_proxy=' > "$root/etc/gridwright/boot.env" || true
cat > "$units/gridwright-boot.service" << 'END-OF-FILE'
[Unit]
Description=Sets this machine of a Gridwright grid up, and brings what is new
After=network-online.target
Wants=network-online.target
[Service]
Type=oneshot
EnvironmentFile=-/etc/gridwright/boot.env
# systemd of Red Hat 8 cannot append to a file by itself.
ExecStart=/bin/sh -c 'exec /bin/sh /var/lib/gridwright/begin.sh >> /var/log/gridwright-boot.log 2>&1'
# A claim may wait for hours for a machine that shuts down.
TimeoutStartSec=11h
END-OF-FILE
cat > "$units/gridwright-boot.timer" << 'END-OF-FILE'
[Unit]
Description=Looks for what is new for this machine, and tries again what failed
[Timer]
OnActiveSec=0
OnUnitInactiveSec=1min
RandomizedDelaySec=15
# By default systemd may put it off by another minute.
AccuracySec=1s
[Install]
WantedBy=timers.target
END-OF-FILE
# Ubuntu restarts services whose libraries were upgraded: not in the middle of a set-up.
if [ -d "$root/etc/needrestart/conf.d" ]; then
    echo '$nrconf{override_rc}{qr(^gridwright-)} = 0;' > "$root/etc/needrestart/conf.d/gridwright.conf"
fi
systemctl daemon-reload
systemctl enable gridwright-boot.timer
systemctl restart gridwright-boot.timer
systemctl --no-block start gridwright-boot.service
