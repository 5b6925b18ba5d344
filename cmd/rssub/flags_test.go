package main

import "testing"

func TestIsHost(t *testing.T) {
	for text, want := range map[string]bool{
		"a.example": true, "a.example:8080": true, "127.0.0.1": true, "[::1]:8080": true, "::1": true,
		"": false, "http://a.example/": false, "a.example/": false, "a.example:http": false, "user@a.example": false, "a b": false, "a?b": false,
	} {
		if got := isHost(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
