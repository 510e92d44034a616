/**
 * `npm run backup -- --to DIR`: backs up an exchange, running or not. Exits with 1 on failure, and with 2 if an option
 * is wrong.
 */

import { resolve, sep } from 'node:path'
import { loadSettings } from '#config/settings.ts'
import { archiveDirOf, databaseUrlOf } from '#config/thread-data.ts'
import { OptionError, runCommand } from '#devnet/command.ts'
import { backup } from './backup.ts'

// Only the user who runs this command can read the files that it creates, as with the files of the exchange.
process.umask(0o077)

const say = (line: string): boolean => process.stdout.write(`${line}\n`)

await runCommand({
  call: 'npm run backup --',
  about:
    'Copies the database, the log with its archive, and the record of the chains from the places in the\n' +
    'settings (SIBYL_DATA_DIR, SIBYL_DATABASE_URL). The exchange may run meanwhile. The keys of the exchange\n' +
    'are settings, not data: the backup does not contain them.',
  options: { to: { value: '<folder>', help: 'the backup folder; it must be empty or not exist' } },
  async run({ to }) {
    const settings = loadSettings()
    const dataDir = resolve(settings.data.dir)
    const folder = resolve(to)
    if (to === '' || `${folder}${sep}`.startsWith(`${dataDir}${sep}`)) {
      throw new OptionError(`--to must be a folder outside of ${dataDir}, not '${to}'`)
    }
    const places = {
      dataDir,
      databaseUrl: databaseUrlOf(settings),
      archiveDir: resolve(archiveDirOf(settings)),
      logUrl: settings.eventLog.url,
    }
    const { files, partitions } = await backup(places, folder, say)
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
    const last = partitions.map(({ lastOffset }) => lastOffset).join(', ')
    say(
      `${folder} is complete: ${files.length} files, ${bytes} bytes, last offset of each ` +
        `partition: ${last}`,
    )
  },
})
