/**
 * Version of the API as `major.minor`, independent of the program's version. The minor number rises when something is
 * added. The major number rises when something that clients rely on changes or is removed.
 */

export const API_VERSION = '1.1'

type ApiVersion = { readonly major: number; readonly minor: number }

export function parseApiVersion(text: string): ApiVersion | undefined {
  const [, major, minor] = /^(\d{1,6})\.(\d{1,6})$/.exec(text) ?? []
  return major === undefined ? undefined : { major: Number(major), minor: Number(minor) }
}
