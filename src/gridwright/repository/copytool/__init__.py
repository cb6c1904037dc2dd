"""A copytool for Lustre's HSM: readers of released files wait in Lustre until it has brought them."""
