package source

import (
	"net/http"
	"path"
	"strings"
)

// mediaTypes are the types of extensions in lower case. They replace the system's table: with
// it two hosts could give one file different types, and an update of a package could change
// resources that nobody has changed.
var mediaTypes = map[string]string{
	"7z": "application/x-7z-compressed", "aac": "audio/aac", "atom": "application/atom+xml", "avi": "video/x-msvideo", "avif": "image/avif",
	"bib": "application/x-bibtex", "bin": "application/octet-stream", "bmp": "image/bmp", "bz2": "application/x-bzip2",
	"cbor": "application/cbor", "css": "text/css", "csv": "text/csv", "djvu": "image/vnd.djvu", "doc": "application/msword",
	"docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "dtd": "application/xml-dtd",
	"eot": "application/vnd.ms-fontobject", "eps": "application/postscript", "epub": "application/epub+zip", "flac": "audio/flac",
	"geojson": "application/geo+json", "gif": "image/gif", "gml": "application/gml+xml", "gpx": "application/gpx+xml", "gz": "application/gzip",
	"h5": "application/x-hdf5", "htm": "text/html", "html": "text/html", "ico": "image/vnd.microsoft.icon", "ics": "text/calendar",
	"jar": "application/java-archive", "jp2": "image/jp2", "jpeg": "image/jpeg", "jpg": "image/jpeg", "js": "text/javascript",
	"json": "application/json", "jsonl": "application/jsonl", "jsonld": "application/ld+json", "kml": "application/vnd.google-earth.kml+xml",
	"log": "text/plain", "m4a": "audio/mp4", "m4v": "video/mp4", "md": "text/markdown", "mets": "application/mets+xml", "mid": "audio/midi",
	"mjs": "text/javascript", "mods": "application/mods+xml", "mov": "video/quicktime", "mp3": "audio/mpeg", "mp4": "video/mp4",
	"mpeg": "video/mpeg", "mpg": "video/mpeg", "mrc": "application/marc", "n3": "text/n3", "nc": "application/x-netcdf",
	"nq": "application/n-quads", "nt": "application/n-triples", "odp": "application/vnd.oasis.opendocument.presentation",
	"ods": "application/vnd.oasis.opendocument.spreadsheet", "odt": "application/vnd.oasis.opendocument.text", "oga": "audio/ogg",
	"ogg": "audio/ogg", "ogv": "video/ogg", "opus": "audio/ogg", "otf": "font/otf", "owl": "application/rdf+xml", "parquet": "application/vnd.apache.parquet",
	"pdf": "application/pdf", "png": "image/png", "ppt": "application/vnd.ms-powerpoint",
	"pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation", "ps": "application/postscript",
	"rar": "application/vnd.rar", "rdf": "application/rdf+xml", "rss": "application/rss+xml", "rtf": "application/rtf", "sh": "application/x-sh",
	"svg": "image/svg+xml", "tar": "application/x-tar", "tex": "application/x-tex", "text": "text/plain", "tgz": "application/gzip",
	"tif": "image/tiff", "tiff": "image/tiff", "toml": "application/toml", "trig": "application/trig", "tsv": "text/tab-separated-values",
	"ttf": "font/ttf", "ttl": "text/turtle", "txt": "text/plain", "vtt": "text/vtt", "wasm": "application/wasm", "wav": "audio/wav",
	"weba": "audio/webm", "webm": "video/webm", "webp": "image/webp", "woff": "font/woff", "woff2": "font/woff2",
	"xhtml": "application/xhtml+xml", "xls": "application/vnd.ms-excel",
	"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xml": "application/xml", "xsd": "application/xml",
	"xsl": "application/xslt+xml", "xslt": "application/xslt+xml", "xz": "application/x-xz", "yaml": "application/yaml", "yml": "application/yaml",
	"zip": "application/zip", "zst": "application/zstd",
}

// sniffed is how many bytes of a file are enough to guess its type.
const sniffed = 512

// MediaType returns the media type of a file, without parameters: by the extension of its
// name or, if a fixed table does not have that, by its first 512 bytes. If these don't tell
// either, it is application/octet-stream (DOC-58).
func MediaType(name string, first []byte) string {
	if ext := path.Ext(name); ext != "" {
		if t, ok := mediaTypes[strings.ToLower(ext[1:])]; ok {
			return t
		}
	}
	if len(first) == 0 {
		return "application/octet-stream"
	}
	t, _, _ := strings.Cut(http.DetectContentType(first), ";")
	return t
}
