package resourcesync

import (
	"bytes"
	"io"
)

// folder is a Sink in memory.
type folder struct {
	files map[int]*file
	order []int
}

type file struct {
	bytes.Buffer
	closed int
}

func (f *file) Close() error { f.closed++; return nil }

func (d *folder) Create(part int) (io.WriteCloser, string, error) {
	if d.files == nil {
		d.files = map[int]*file{}
	}
	f := &file{}
	d.files[part] = f
	d.order = append(d.order, part)
	return f, d.url(part), nil
}

func (d *folder) url(part int) string {
	if part == 0 {
		return site + "list.xml"
	}
	return site + "list-" + string(rune('0'+part)) + ".xml"
}
