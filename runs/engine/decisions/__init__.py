"""People's decisions as the machine reads them, and whether a run goes on from one."""
