"""The text of user data: files that cloud-init writes, and a script that it runs at every start."""

from __future__ import annotations

_BOUNDARY = "gridwright"


def here(path: str, content: str) -> str:
    """Shell that writes a file of root alone."""
    return f"(umask 077; cat > \"$root/{path}\") << 'END-OF-FILE'\n{content.rstrip()}\nEND-OF-FILE"


def multipart(script: str) -> str:
    """The script as a part that cloud-init runs at every start, not only at the first one.

    So that a machine which is stopped for an update sets itself up again with what is new (AWS, re:Post: run
    user data with every restart).
    """
    return (
        f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"\n'
        "MIME-Version: 1.0\n\n"
        f"--{_BOUNDARY}\n"
        'Content-Type: text/cloud-config; charset="us-ascii"\n\n'
        "#cloud-config\n"
        "preserve_hostname: true\n"
        "cloud_final_modules: [[scripts-user, always]]\n\n"
        f"--{_BOUNDARY}\n"
        'Content-Type: text/x-shellscript; charset="us-ascii"\n'
        'Content-Disposition: attachment; filename="gridwright.sh"\n\n'
        f"{script.rstrip()}\n\n"
        f"--{_BOUNDARY}--\n"
    )
