// Reads the documents of a Source with parsers of sitemaps, and prints what each found
// as a line of JSON.
//
// node sitemaps.mjs PARSER INDEX URL...
import { Readable } from 'node:stream';

const [parser, index, ...urls] = process.argv.slice(2);
const text = async (url) => {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  return answer.text();
};
const say = (url, locs) => console.log(JSON.stringify({ url, locs }));

switch (parser) {
  case 'sitemap': {
    const { ErrorLevel, XMLToSitemapIndexStream, XMLToSitemapItemStream } = await import('sitemap');
    const read = async (url, stream) => {
      const locs = [];
      for await (const item of Readable.from([await text(url)]).pipe(stream)) locs.push(item.url);
      say(url, locs);
    };
    for (const url of urls) await read(url, new XMLToSitemapItemStream({ level: ErrorLevel.SILENT, logger: false }));
    await read(index, new XMLToSitemapIndexStream({ level: ErrorLevel.SILENT, logger: false }));
    break;
  }
  case 'sitemapper': {
    const { default: Sitemapper } = await import('sitemapper');
    for (const url of [...urls, index]) {
      const found = await new Sitemapper({ url, timeout: 60000, retries: 0 }).fetch();
      if (found.errors?.length) throw new Error(JSON.stringify(found.errors));
      say(url, found.sites);
    }
    break;
  }
  case 'fast-xml-parser': {
    const { XMLParser, XMLValidator } = await import('fast-xml-parser');
    const xml = new XMLParser({ ignoreAttributes: false, isArray: (name) => ['url', 'sitemap', 'rs:ln'].includes(name) });
    for (const url of [...urls, index]) {
      const body = await text(url);
      const valid = XMLValidator.validate(body);
      if (valid !== true) throw new Error(`${url}: ${JSON.stringify(valid)}`);
      const root = xml.parse(body);
      const entries = root.urlset?.url ?? root.sitemapindex?.sitemap ?? [];
      if (!(root.urlset ?? root.sitemapindex)['rs:md']['@_capability']) throw new Error(`${url}: no capability`);
      say(url, entries.map((entry) => entry.loc));
    }
    break;
  }
}
