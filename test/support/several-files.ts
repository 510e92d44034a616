/**
 * Runs several test files in this process, one after the other, so that common modules are loaded once. Each file is a
 * suite with the name of the file. `run-tests.ts` starts this program for files that share a process.
 */

import { join } from 'node:path'
import { describe } from 'node:test'
import { pathToFileURL } from 'node:url'
import { ROOT } from './imports.ts'
import { followed } from './untracked.ts'

export async function runFiles(files: readonly string[]): Promise<void> {
  let underWay = ''
  // The runner cannot assign an uncaught error to a test or a file, so the current file is printed.
  const tell = () => process.stderr.write(`this was not caught while ${underWay} ran:\n`)
  process.prependListener('unhandledRejection', tell)
  process.prependListener('uncaughtExceptionMonitor', tell)
  for (const file of files) {
    underWay = file
    const load = () => import(pathToFileURL(join(ROOT, file)).href)
    // Loading a file declares its tests in this suite. `describe` resolves when the tests of the suite have ended. Then
    // the next file is loaded.
    await describe(file, () => followed(load))
  }
}
