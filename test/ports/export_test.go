package ports

// NotCalled is for the tests.
var NotCalled = notCalled
