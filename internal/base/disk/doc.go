// Package disk has what the hub, the Source and the Destination share about the
// folders that they write to: the marker of folders with state (marker.go), the free
// space that stays on their disks (free.go), and finding files in them (match.go).
package disk
