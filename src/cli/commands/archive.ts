/** `sibyl archive`: downloads the events of a market on a day. */

import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { finished } from 'node:stream/promises'
import { OptionError } from '#devnet/command.ts'
import { command, READ_OPTIONS } from '../command.ts'
import { readerOf } from '../connect.ts'
import { findMarket } from '../find-market.ts'
import { showJson } from '../show.ts'

export const archive = command({
  name: 'archive',
  takes: '<market> <day>',
  about:
    'downloads the events of a market on a UTC day as a gzip file with one JSON object per line',
  more: 'Every part is checked against the SHA-256 in the answer of the exchange. This command needs an exchange whose log is public.',
  options: {
    out: {
      value: '<file>',
      help: 'path of the file to write; by default <market id>-<day>.jsonl.gz',
    },
    ...READ_OPTIONS,
  },
  async run({ values, positionals: [named = '', day = ''], io }) {
    if (!/^\d{4}-\d{2}-\d{2}$/.test(day))
      throw new OptionError('the day must be a date such as 2026-11-18')
    const client = readerOf(values, io)
    const { id } = await findMarket(client, named)
    const path = values.out ?? `${id}-${day}.jsonl.gz`
    const draft = `${path}.part`
    const hash = createHash('sha256')
    let events = 0
    let bytes = 0
    const out = createWriteStream(draft)
    try {
      for await (const part of client.archive.files(id, day, { signal: io.signal })) {
        hash.update(part.file)
        out.write(part.file)
        events += part.events
        bytes += part.file.length
      }
      out.end()
      await finished(out)
      await rename(draft, path)
    } catch (error) {
      out.destroy()
      await rm(draft, { force: true })
      throw error
    }
    const facts = { file: path, events, bytes, sha256: hash.digest('hex') }
    io.out(
      values.json
        ? showJson(facts, 2)
        : `${path}: ${events} events, ${bytes} bytes, sha256 ${facts.sha256}\n`,
    )
    return 0
  },
})
