"""Grid Engine: Son of Grid Engine as Debian has it, and others with its commands and their XML."""
