// Package delivery brings what the journal holds to the subscribers' callbacks.
package delivery
