"""What tests of every room share: the real command, waiting, file systems on loop devices."""
