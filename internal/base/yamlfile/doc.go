// Package yamlfile reads YAML files that people write: settings, publishers, rules. Each error names
// the file and the line, and for an unknown key the one that was probably meant.
package yamlfile
