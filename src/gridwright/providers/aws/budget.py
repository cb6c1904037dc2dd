"""A budget of AWS for what a grid costs in a month, known by the grid's tag."""

from __future__ import annotations

from hashlib import sha256

from troposphere import Template, budgets

from gridwright.providers.aws.names import GRID_TAG, of_account
from gridwright.providers.aws.section import Alarms
from gridwright.spec.model import GridSpec
from gridwright.units import HOURS_PER_MONTH

SPENT = (80, 100)
"""Percent of the budget at which somebody is told that it is spent."""
FORECAST = 100
"""Percent at which the forecast for the month is told."""


def add_budget(template: Template, spec: GridSpec, alarms: Alarms | None) -> None:
    """Add it where the spec has one.

    Costs are known by the tag once the payer has activated it for cost allocation (AWS Billing User Guide,
    user-defined cost allocation tags).
    """
    if alarms is None or alarms.budget is None:
        return
    told = [(each, "ACTUAL") for each in SPENT] + [(FORECAST, "FORECASTED")]
    template.add_resource(
        budgets.Budget(
            "Budget",
            Budget=budgets.BudgetData(
                BudgetName=_name(spec, alarms.topic),
                BudgetType="COST",
                TimeUnit="MONTHLY",
                BudgetLimit=budgets.Spend(Amount=round(alarms.budget * HOURS_PER_MONTH, 2), Unit="USD"),
                CostFilters={"TagKeyValue": [f"user:{GRID_TAG}${spec.name}"]},
            ),
            NotificationsWithSubscribers=[
                budgets.NotificationWithSubscribers(
                    Notification=budgets.Notification(
                        NotificationType=kind,
                        ComparisonOperator="GREATER_THAN",
                        Threshold=percent,
                        ThresholdType="PERCENTAGE",
                    ),
                    Subscribers=[budgets.Subscriber(SubscriptionType="SNS", Address=alarms.topic)],
                )
                for percent, kind in told
            ],
        )
    )


def _name(spec: GridSpec, topic: str) -> str:
    """The name, by the topic as well: who is told never changes in a budget, another one is made first."""
    return f"{of_account(spec)}-{sha256(topic.encode()).hexdigest()[:8]}"
