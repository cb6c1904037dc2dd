"""Where the console of a grid is reached, as its server and what stands before it both know it."""

from __future__ import annotations

PORT = 29119
"""Next to that of the exporter."""
HEALTH = "/health"
"""Says without a token that the console serves, and nothing else: what a load balancer looks at."""
