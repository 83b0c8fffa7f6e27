"""The learner role: the hub that publishes releases, and the client with which anybody fetches, checks and fits them."""
