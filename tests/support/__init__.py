"""What several test modules share: noise sources, small specs, a consortium with real keys."""
