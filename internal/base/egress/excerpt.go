package egress

import (
	"bytes"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Excerpt returns what a person is shown of a body that is an error message, in one line
// of at most n characters. Of a page of HTML it is the text, without tags, comments,
// scripts and styles. What can't be shown stands as U+FFFD: control characters, controls
// of the direction of writing, and bytes that are no UTF-8.
func Excerpt(body []byte, n int) string {
	text := string(body)
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		text = html.UnescapeString(withoutTags(body))
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " "))
	if utf8.RuneCountInString(text) > n {
		text = string([]rune(text)[:max(n-1, 0)]) + "…"
	}
	return text
}

// withoutTags leaves out of HTML, which may be cut off anywhere, what is no text.
func withoutTags(page []byte) string {
	var text strings.Builder
	for len(page) > 0 {
		begin := bytes.IndexByte(page, '<')
		if begin < 0 {
			text.Write(page)
			break
		}
		text.Write(page[:begin])
		text.WriteByte(' ') // tags part words, mostly
		page = page[begin:]
		end := ">"
		switch {
		case bytes.HasPrefix(page, []byte("<!--")):
			end = "-->"
		case hasPrefixFold(page, "<script"):
			end = "</script"
		case hasPrefixFold(page, "<style"):
			end = "</style"
		}
		i := indexFold(page[1:], end)
		if i < 0 {
			break
		}
		page = page[1+i:]
		if end[0] != '<' { // else its tag is left out next
			page = page[len(end):]
		}
	}
	return text.String()
}

func hasPrefixFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && strings.EqualFold(string(b[:len(prefix)]), prefix)
}

// indexFold is where an ASCII text begins in b, in either case; -1: nowhere.
func indexFold(b []byte, text string) int {
	for i := range len(b) - len(text) + 1 {
		if hasPrefixFold(b[i:], text) {
			return i
		}
	}
	return -1
}
