# The log is read by administrators alone; what ends in failure is told to CloudFormation as well.
(umask 077; : >> "$root/var/log/gridwright-boot.log")
exec python3 "$root/var/lib/gridwright/boot.py" >> "$root/var/log/gridwright-boot.log" 2>&1
