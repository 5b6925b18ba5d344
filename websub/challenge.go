package websub

import "crypto/rand"

// NewChallenge returns a hub.challenge: random text of at least 128 bits that stands for
// itself in a URL (HUB-24). Use each once.
func NewChallenge() string { return rand.Text() }
