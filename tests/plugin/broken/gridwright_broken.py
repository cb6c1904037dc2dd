"""An extension that cannot be imported."""

import module_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401
