/**
 * `npm run rebuild`: writes the events of the log that a database lacks. The database may be empty. Exits with 1 if
 * events are missing or the rebuild was interrupted, and with 2 if an option is wrong.
 */

import { loadSettings } from '#config/settings.ts'
import { archiveDirOf, databaseUrlOf } from '#config/thread-data.ts'
import { CommandError, runCommand } from '#devnet/command.ts'
import { openArchive, wholeLog } from '#log/archive/archive-reader.ts'
import { openLogReader } from '#log/log-reader.ts'
import { PACKED } from '#log/packed-event.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { describeDatabaseUrl } from '#store/engine/database-url.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { makeDatabaseFolder } from './database-folder.ts'
import { rebuild } from './rebuild.ts'

// Only the user who runs this command can read the files that it creates, as with the files of the exchange.
process.umask(0o077)

const say = (line: string): boolean => process.stdout.write(`${line}\n`)

await runCommand({
  call: 'npm run rebuild --',
  about:
    'Writes the events of the archive and of the log into the database of the settings\n' +
    '(SIBYL_DATABASE_URL, SIBYL_DATA_DIR), which may be empty or an older copy. Data that is not in the log\n' +
    '(API keys, the journal of transactions, relays, prices) stays as it is in that database; data from a\n' +
    'chain is read again at the next start. The command may be interrupted and run again.',
  options: {},
  async run() {
    const settings = loadSettings()
    const stop = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort())
    const url = databaseUrlOf(settings)
    const reader = openLogReader(settings.data.dir, { form: PACKED })
    makeDatabaseFolder(url)
    const database = await openDatabase(url, { silentMsMax: Number.POSITIVE_INFINITY })
    try {
      say(`rebuilding ${describeDatabaseUrl(url)} from the log in ${settings.data.dir}`)
      await migrate(database)
      const archive = openArchive(archiveDirOf(settings), reader, { form: PACKED })
      const log = wholeLog(reader, archive)
      const { events, ended } = await rebuild({ log, database, say, signal: stop.signal })
      if (!ended)
        throw new CommandError(
          `the rebuild was interrupted after ${events} events; run the command again to continue`,
        )
      say(`done: ${events} events were written, the database has reached the end of the log`)
    } finally {
      await closeDatabase(database)
      await reader.close()
    }
  },
})
