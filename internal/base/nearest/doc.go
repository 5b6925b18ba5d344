// Package nearest finds which name a person probably meant who wrote one that does not exist.
package nearest
