/**
 * Version of the API, independent of the program's: `major.minor`. The minor number rises when something is added, the
 * major one when something that clients rely on changes or is removed.
 */

export const API_VERSION = '1.1'

type ApiVersion = { readonly major: number; readonly minor: number }

export function parseApiVersion(text: string): ApiVersion | undefined {
  const [, major, minor] = /^(\d{1,6})\.(\d{1,6})$/.exec(text) ?? []
  return major === undefined ? undefined : { major: Number(major), minor: Number(minor) }
}
