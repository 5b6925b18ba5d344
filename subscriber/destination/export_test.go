package destination

// StateOptions are those of the file of a copy's state.
var StateOptions = stateOptions
