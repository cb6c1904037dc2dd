"""What a node does now as text of OpenMetrics, for Prometheus and others that keep it."""
