"""Lustre that Oracle sells as a service: File Storage with Lustre."""
