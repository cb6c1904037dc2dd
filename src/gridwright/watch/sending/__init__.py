"""How notices are sent: to a program, to a URL with a signature, or by mail."""
