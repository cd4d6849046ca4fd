"""The main job on real flights, shown end to end: `headrace demo`."""
