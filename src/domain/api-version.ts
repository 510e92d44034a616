/**
 * The version of the API, apart from that of the program: `major.minor`. The minor number rises when
 * something is added, the major one when something that clients may count on changes or goes.
 */

export const API_VERSION = '1.0'

type ApiVersion = { readonly major: number; readonly minor: number }

export function parseApiVersion(text: string): ApiVersion | undefined {
  const [, major, minor] = /^(\d{1,6})\.(\d{1,6})$/.exec(text) ?? []
  return major === undefined ? undefined : { major: Number(major), minor: Number(minor) }
}
