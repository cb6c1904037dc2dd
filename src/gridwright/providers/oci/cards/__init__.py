"""The program that sets up the second network card of a server, which images of Oracle leave alone."""
