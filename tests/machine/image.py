"""Makes the images of nodes of labs, once for all tests: `python -m tests.machine.image`."""

from __future__ import annotations

import os

from gridwright.providers.lab.image import ensure_image
from gridwright.providers.provider import Caller
from gridwright.schedulers import all_kinds


def main() -> None:
    if os.geteuid() == 0:
        for packages in dict.fromkeys(tuple(kind.lab_packages) for kind in all_kinds()):
            ensure_image(Caller(print), packages)


if __name__ == "__main__":
    main()
