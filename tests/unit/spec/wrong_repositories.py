"""Wrong repositories of grid specs, by name; each message is reviewed in the snapshot."""

DISK = "filesystems:\n  disk: {type: local, path: /data}\n"
CLOUD = "provider: aws\nregion: us-east-1\nnodes:\n  compute: {instance: m5n.8xlarge, count: 4}\n"
FSX = CLOUD + "filesystems:\n  fsx:\n    type: fsx-lustre\n    path: /fsx\n    capacity: 2400 GiB\n"


def _linked(repositories: str, links: str = "") -> str:
    """Repositories of a managed Lustre of Oracle, with links of its own section."""
    return (
        "provider: oci\nregion: us-ashburn-1\nnodes: {compute: {instance: VM.Standard.E5.Flex(24)}}\n"
        "filesystems:\n  lake:\n    type: oci-lustre\n    path: /lake\n    capacity: 31.2 TB\n"
        f"{links and f'    links: [{links}]'}\nrepositories:\n{repositories}"
    )


def _buckets(*buckets: str) -> str:
    """A repository for each bucket."""
    return "".join(
        f"  r{number}: {{library: data, path: /{number}, bucket: '{bucket}'}}\n"
        for number, bucket in enumerate(buckets)
    )


WRONG: dict[str, str | bytes] = {
    "repository_of_no_library": DISK
    + "libraries: {data: {}, work: {}}\nrepositories:\n  a: {library: dta, bucket: s3://site}\n"
    + "  b: {library: util, bucket: s3://site2}\n  c: {bucket: s3://site3}\n",
    "repository_within_another": DISK
    + "repositories:\n  a: {library: data, bucket: s3://site/a}\n"
    + "  b: {library: data, path: /results, bucket: s3://site/b}\n"
    + "  c: {library: data, path: /results/, bucket: s3://site/c}\n",
    "repository_bucket_twice": DISK
    + "repositories:\n  a: {library: data, bucket: s3://site/prod}\n"
    + "  b: {library: work, bucket: s3://site/prod/}\n  c: {library: util, bucket: s3://site/prod/util}\n",
    "repository_with_credentials": DISK
    + "repositories:\n  a:\n    library: data\n    bucket: s3://AKIAEXAMPLE:hunter2@site\n"
    + "    endpoint: https://ann:hunter2@store.example.com\n    secret_access_key: hunter2\n",
    "repository_endpoint_without_tls": DISK
    + "repositories:\n  a: {library: data, bucket: s3://site, endpoint: 'http://store.example.com:9000'}\n"
    + "  b: {library: work, bucket: s3://site2, endpoint: store.example.com}\n",
    "repository_path_leaves": DISK
    + "repositories:\n  a: {library: data, path: /../work, bucket: s3://site}\n"
    + "  b: {library: work, path: results, bucket: s3://site2}\n",
    "repository_schedule": DISK
    + "repositories:\n  a: {library: data, bucket: s3://site, export: {changed: weekly}}\n"
    + "  b: {library: work, bucket: s3://site2, export: {changed: 5s}, import: {names: 60}}\n",
    "repository_at_once_on_disks": DISK
    + "repositories:\n  a: {library: data, bucket: s3://site, export: {changed: at-once}}\n",
    "repository_rpo_out_of_reach": DISK
    + "repositories:\n  a: {library: data, bucket: s3://site, export: {changed: daily}, rpo: 2h}\n",
    "repository_on_disks_of_each_node": CLOUD
    + "filesystems: {disk: {type: local, path: /data, disks: {type: gp3, size: 1 TiB}}}\n"
    + "repositories:\n  a: {library: data, bucket: s3://site}\n",
    "repository_said_twice": FSX
    + "    repository: {bucket: s3://site/prod, directory: /data}\n"
    + "repositories:\n  a: {library: data, path: /results, bucket: s3://site/prod/results}\n",
    "repository_and_backups": FSX
    + "    backup_days: 7\nrepositories:\n  a: {library: data, bucket: s3://site, import: {names: hourly, "
    + "contents: true}}\n",
    "repository_exports_by_time_beside_at_once": FSX
    + "repositories:\n  a: {library: data, path: /a, bucket: s3://four, export: {changed: at-once}}\n"
    + "  b: {library: data, path: /b, bucket: s3://two, export: {changed: hourly, deletions: true}}\n",
    "repository_of_the_name_of_a_linked_file_system": FSX
    + "    repository: {bucket: s3://site/old, directory: /old, export_on: []}\n"
    + "repositories:\n  fsx: {library: data, bucket: s3://site/prod}\n",
    "repositories_beyond_eight": FSX
    + "repositories:\n"
    + "".join(f"  r{each}: {{library: data, path: /{each}, bucket: s3://site{each}}}\n" for each in range(9)),
    "repository_of_a_namespace_that_is_none": _linked(
        _buckets(
            *("oci://raw", "oci://landing/2026/in", "OCI://raw_1@tenancy", "oci:/raw@tenancy/in"),
            *("oci://raw@My Tenancy", "oci://raw@tenancy?x=1", "oci://@tenancy", "oci:", "oci://a/b@tenancy"),
            *("oci://ann:hunter2@tenancy/raw", "oci://raw@tenancy/in/../out#1"),
        )
    ),
    "repository_whose_bucket_is_no_text": _linked(
        "  a: {library: data, bucket: 7, overwrite: maybe}\n"
        "  b: {library: work, bucket: [oci], overwrite: 1}\n"
    ),
    "repository_of_a_namespace_on_disks": DISK
    + "repositories:\n  a: {library: data, bucket: 'oci://raw@tenancy/in', overwrite: true}\n"
    + "  b: {library: work, bucket: 'oci://Raw_Data@tenancy'}\n"
    + "  c: {library: util, bucket: 'oci://_A@tenancy/in/2026/'}\n",
    "repository_of_a_namespace_on_fsx": FSX
    + "repositories:\n  a: {library: data, bucket: 'oci://raw@tenancy', export: {changed: at-once}}\n",
    "repository_on_fsx_of_another_store": FSX
    + "repositories:\n  a: {library: data, path: /a, bucket: s3://raw, endpoint: 'https://s3.example.com'}\n"
    + "  b: {library: data, path: /b, bucket: s3://own, endpoint: 'https://amazonaws.com.example.com'}\n"
    + "  c: {library: data, path: /c, bucket: s3://fit, endpoint: 'https://s3.us-east-1.amazonaws.com'}\n"
    + "  d: {library: data, path: /d, bucket: s3://four, endpoint: 'http://127.0.0.1:9000'}\n"
    + "  e: {library: data, path: /e, bucket: s3://five, endpoint: 'https://[::1'}\n",
    "repository_that_overwrites_and_is_no_link": _linked(
        "  a: {library: data, bucket: 's3://raw', overwrite: true}\n"
    ),
    "repository_of_jobs_with_schedules": _linked(
        "  a:\n    library: data\n    bucket: oci://raw@tenancy\n    endpoint: https://store.example.com\n"
        "    export: {changed: hourly, deletions: true, by: changelog}\n"
        "    import: {names: at-once, deletions: true}\n"
    ),
    "repository_of_jobs_with_an_rpo": _linked(
        "  a: {library: data, bucket: 'oci://raw@tenancy', rpo: 2h}\n"
        "  b: {library: work, bucket: 'oci://raw2@tenancy', overwrite: false, rpo: 1d}\n"
    ),
    "repository_of_jobs_beside_links_of_the_section": _linked(
        "  a: {library: data, path: /raw/in, bucket: 'oci://raw@tenancy/2027'}\n"
        "  b: {library: work, bucket: 'oci://raw@tenancy/2026/in'}\n"
        "  c: {library: util, bucket: 'oci://other@tenancy/'}\n"
        "  d: {library: util, path: /d, bucket: 'oci://other@tenancy/d'}\n",
        "{bucket: 'oci://raw@tenancy/2026', directory: /data/raw}",
    ),
    "repository_of_jobs_of_the_name_of_a_file_system_that_is_linked": _linked(
        "  lake: {library: data, bucket: 'oci://raw@tenancy/2027'}\n", "{bucket: 'oci://raw@tenancy/2026'}"
    ),
    "links_of_oci_lustre": _linked(
        "  a: {library: data, bucket: 's3://site'}\n",
        "{bucket: 'oci://raw@tenancy/2026', directory: /raw}, {bucket: 'oci://raw', directory: /raw/in, "
        "imports: -1}, {bucket: 's3://raw', directory: ../raw, exports: maybe}",
    ),
}
