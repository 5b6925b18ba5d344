package excerpt

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Of returns the beginning of an error message in a body, for a person to read: one line
// of at most n characters. Of a page of HTML it returns the text, without tags, comments,
// scripts and styles. It replaces with U+FFFD what can't be shown: control characters,
// controls of the writing direction, and bytes that are not UTF-8.
func Of(body []byte, n int) string {
	text := string(body)
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		text = textOf(body)
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

// Cut returns the first n bytes of a text that is longer, at most, with "..." behind them. It cuts no character.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "..."
}

// textOf returns the text of a page of HTML, which may be cut off anywhere.
func textOf(page []byte) string {
	var text strings.Builder
	tokens := html.NewTokenizer(bytes.NewReader(page))
	for hidden := false; ; { // whether the next text is a script or a style
		switch kind := tokens.Next(); {
		case kind == html.ErrorToken:
			return text.String()
		case kind != html.TextToken:
			text.WriteByte(' ') // most tags separate words
			name, _ := tokens.TagName()
			of := atom.Lookup(name)
			hidden = kind == html.StartTagToken && (of == atom.Script || of == atom.Style)
		case !hidden:
			text.Write(tokens.Text())
		}
	}
}
