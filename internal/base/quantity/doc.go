// Package quantity reads the sizes, shares and times that people write in settings and
// flags, for all three commands alike, and says what is wrong with them in the same
// words. It also writes sizes, times and counts for people. It knows of no setting; whoever asks adds its name.
package quantity
