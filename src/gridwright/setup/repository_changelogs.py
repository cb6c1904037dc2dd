"""Who is to be registered with the changelogs of Lustre, for repositories that are exported by them."""

from __future__ import annotations

from gridwright.filesystems import kind_of
from gridwright.spec.changelog_users import changelog_user
from gridwright.spec.model import GridSpec


def changelog_variables(spec: GridSpec) -> dict[str, list[dict[str, str]]]:
    """What the role is told: for each repository the file system, its mount, and the user at each MDT.

    An empty list has users of an earlier spec removed. Nothing where no file system keeps changelogs.
    """
    if not any(kind_of(each).changelog_source(each) for each in spec.filesystems.values()):
        return {}
    found = []
    for name, repository in spec.repositories.items():
        filesystem = spec.filesystem_of(repository.library)
        source, user = kind_of(filesystem).changelog_source(filesystem), changelog_user(spec, name)
        if source is not None and user is not None:
            found.append(
                {"repository": name, "filesystem": source, "mount": str(filesystem.path), "user": user}
            )
    return {"gridwright_changelogs": found}
