/**
 * TLS options of a database URL. `?tls=true` encrypts the connection and checks that the server's certificate is
 * trusted and names the host. `&ca=/path/ca.pem` trusts the certificates of that file instead of the system's.
 */

import { isIP } from 'node:net'

export type MysqlTls = {
  readonly tls: boolean
  /** File of trusted certificates; undefined to trust the system's certificates. */
  readonly caFile?: string
}

/** Returns the options, or an error message. The message repeats no value, because the URL contains a password. */
export function readTlsOptions(
  params: URLSearchParams,
  hosts: readonly string[],
): MysqlTls | string {
  for (const key of params.keys()) {
    if (key !== 'tls' && key !== 'ca') return 'the only allowed options are tls and ca'
  }
  const tls = params.get('tls') ?? 'false'
  const ca = params.get('ca')
  if (tls !== 'true' && tls !== 'false') return 'tls must be true or false'
  if (ca === null) return checkHosts({ tls: tls === 'true' }, hosts)
  if (tls === 'false' || ca === '') return 'ca must be a file of certificates and needs tls=true'
  return checkHosts({ tls: true, caFile: ca }, hosts)
}

/**
 * Returns the options, or an error message if TLS is on and a host is an IP address. The driver passes only host names
 * to the certificate check. For an IP address, the check would look for the name `localhost` in the certificate.
 */
function checkHosts(options: MysqlTls, hosts: readonly string[]): MysqlTls | string {
  if (!options.tls || hosts.every((host) => isIP(host) === 0)) return options
  return 'tls=true needs a host name instead of an IP address, because the certificate is checked against the host name'
}
