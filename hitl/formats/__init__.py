"""How Django writes dates for people where no template of ours does: the admin."""
