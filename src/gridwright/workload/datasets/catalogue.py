"""All tables of the data set, by name."""

from __future__ import annotations

from gridwright.workload.datasets.items import ITEMS
from gridwright.workload.datasets.observations import OBSERVATIONS
from gridwright.workload.datasets.sales import (
    ACCOUNTS,
    ADDITIONS,
    EXTRACT,
    MEASUREMENTS,
    ORDERS,
    SETTLEMENTS,
    TRANSACTIONS,
)
from gridwright.workload.datasets.series import SERIES
from gridwright.workload.datasets.table import DataTable

TABLES: dict[str, DataTable] = {
    table.name: table
    for table in (
        TRANSACTIONS,
        SETTLEMENTS,
        ADDITIONS,
        ACCOUNTS,
        ORDERS,
        MEASUREMENTS,
        EXTRACT,
        OBSERVATIONS,
        SERIES,
        ITEMS,
    )
}
