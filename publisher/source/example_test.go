package source_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/rshub/rshub/publisher/source"
)

// An application that publishes a folder of its own: Open, a Handler where the public
// URL leads, and Run. With Hubs its changes are pushed, too.
func Example() {
	dir, state := books(), filepath.Join(os.TempDir(), fmt.Sprint("books-state-", os.Getpid()))
	mux := http.NewServeMux()
	app := httptest.NewServer(mux)
	done := make(chan struct{}, 100)

	s, err := source.Open(source.Options{
		PublicURL: app.URL + "/books/",
		StateDir:  state,
		Sets:      []source.Set{{Folder: source.FolderOptions{Dir: dir}}},
		Hooks:     source.Hooks{Built: func(string, []string) { done <- struct{}{} }},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/", s.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()

	for get(app.URL+"/books/resourcelist.xml") == "" {
		<-done // only to see it here; subscribers come when they like
	}
	fmt.Println(get(app.URL + "/books/data/moby-dick.txt"))
	fmt.Println(strings.Count(get(app.URL+"/books/resourcelist.xml"), "<url>"), "resource")
	cancel()
	fmt.Println(<-ended, s.Close())
	app.Close()
	_, _ = os.RemoveAll(dir), os.RemoveAll(state)
	// Output:
	// Call me Ishmael.
	// 1 resource
	// <nil> <nil>
}

// books is a folder with a book.
func books() string {
	dir, err := os.MkdirTemp("", "books-")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "moby-dick.txt"), []byte("Call me Ishmael."), 0o600)
	}
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

// get returns what a URL answers with 200.
func get(url string) string {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}
