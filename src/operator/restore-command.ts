/**
 * `npm run restore -- --from DIR`: restores a backup into an empty data folder and an empty database. Exits with 1 on
 * failure, and with 2 if an option is wrong.
 */

import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { loadSettings } from '#config/settings.ts'
import { archiveDirOf, databaseUrlOf } from '#config/thread-data.ts'
import { OptionError, runCommand } from '#devnet/command.ts'
import { restore } from './restore.ts'

// Only the user who runs this command can read the files that it creates, as with the files of the exchange.
process.umask(0o077)

const say = (line: string): boolean => process.stdout.write(`${line}\n`)

await runCommand({
  call: 'npm run restore --',
  about:
    'Checks every byte of a backup, then puts it into the data folder and the database of the settings\n' +
    '(SIBYL_DATA_DIR, SIBYL_DATABASE_URL), both of which must be empty. Then npm start continues from it.',
  options: { from: { value: '<folder>', help: 'a folder that npm run backup has made' } },
  async run({ from }) {
    if (statSync(from, { throwIfNoEntry: false })?.isDirectory() !== true) {
      throw new OptionError(`--from must be a folder made by npm run backup, not '${from}'`)
    }
    const settings = loadSettings()
    const places = {
      dataDir: resolve(settings.data.dir),
      databaseUrl: databaseUrlOf(settings),
      archiveDir: resolve(archiveDirOf(settings)),
      logUrl: settings.eventLog.url,
    }
    await restore(resolve(from), places, say)
    say('the backup is restored; npm start continues from it')
  },
})
