/**
 * Makes a folder named by a setting, or fails with one line that gives the reason. Missing parent folders are made one
 * by one: Node's recursive `mkdir` never returns on a file system such as /proc, where no folder can be made.
 */

import { accessSync, constants, mkdirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { SettingsError } from './settings.ts'

/** Returns the reason why a folder in `place` cannot be made or written to. */
function reasonOf(code: string, place: string): string {
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return `the user of this process has no permission to write in ${place}`
    case 'EROFS':
      return `the disk of ${place} is read-only`
    case 'ENOSPC':
      return `the disk of ${place} is full`
    case 'ENOENT':
      return `no folder can be created in ${place}`
    case 'ENAMETOOLONG':
      return 'its name is too long'
    default:
      return `${place} answers ${code}`
  }
}

/** Makes sure that the folder exists and is writable; an error names `setting`. */
export function makeFolder(setting: string, folder: string): void {
  const missing: string[] = []
  let at = resolve(folder)
  try {
    for (;;) {
      const found = statOf(at)
      if (found?.isDirectory()) break
      if (found !== undefined) throw new SettingsError(`${setting}: ${at} is a file, not a folder`)
      missing.push(at)
      at = dirname(at)
    }
    while (missing.length > 0) {
      const next = missing.pop() ?? ''
      makeOne(next)
      at = next
    }
    accessSync(at, constants.W_OK | constants.X_OK)
  } catch (error) {
    if (error instanceof SettingsError) throw error
    const { code = '' } = error as NodeJS.ErrnoException
    throw new SettingsError(`${setting}: ${folder} cannot be used: ${reasonOf(code, at)}`)
  }
}

/** Returns the stat of a path; undefined if the path does not exist, or if one of its parents is a file. */
function statOf(path: string) {
  try {
    return statSync(path, { throwIfNoEntry: false })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined
    throw error
  }
}

/** Makes one folder. The folder may already exist, because another process can make it at the same time. */
function makeOne(path: string): void {
  try {
    mkdirSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
