"""A double of liblustreapi and of the coordinator of Lustre's HSM, strict about layouts, order and flags."""
