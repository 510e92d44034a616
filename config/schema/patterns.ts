/** Patterns of texts in the settings, and their descriptions for people. */

import { PRICE_PROVIDERS } from '#domain/price-providers.ts'

/** A private key: 0x and 64 hexadecimal digits. The environment variable may name a file with the key instead. */
export const Key = '^(0x[0-9a-fA-F]{64})?$'
/** A shared secret of 32 bytes: 0x and 64 hexadecimal digits. The environment variable may name a file instead. */
export const ClusterKey = '^$|^0x[0-9a-fA-F]{64}$'
export const ContractAddressForm = '^0x[0-9a-fA-F]{40}$'
export const HttpUrl = '^https?://'
export const HttpUrlOrNone = '^(https?://.+)?$'
export const SocketUrlOrNone = '^(wss?://.+)?$'
export const ProxyRange = '^[0-9a-fA-F.:]+(/[0-9]{1,3})?$'
export const DatabaseUrl = '^$|^mysql://|^sqlite:'
export const MysqlUrl = '^$|^mysql://'
/**
 * A host with an optional port. The host is part of the name of each key that signs the log. Such a name must contain
 * neither spaces nor a plus sign.
 */
export const LogHost = '^[a-z0-9]([a-z0-9.-]{0,252})(:[0-9]{1,5})?$'
/** A witness of the public log: its verifier key, then `@`, then its URL. */
export const WitnessAddress = '^[^+@\\s]+\\+[0-9a-f]{8}\\+[A-Za-z0-9+/=]+@https?://\\S+$'
export const NodeName = '^[a-z0-9][a-z0-9-]{0,31}$'
export const NodeNameOrNone = '^$|^[a-z0-9][a-z0-9-]{0,31}$'
export const NatsUrl = '^$|^(nats|tls)://.+'
export const AssetName = '^[A-Z0-9]{1,16}$'

export const PATTERN_WORDS: Readonly<Record<string, string>> = {
  [Key]:
    'must be a private key (0x and 64 hexadecimal digits), or the path of a file that contains the key',
  [ClusterKey]:
    'must be empty, 0x and 64 hexadecimal digits, or the path of a file that contains them',
  [ContractAddressForm]: 'must be an address, 0x and 40 hexadecimal digits',
  [HttpUrl]: 'must be an address that begins with http:// or https://',
  [HttpUrlOrNone]: 'must be empty, or an address that begins with http:// or https://',
  [SocketUrlOrNone]: 'must be empty, or an address that begins with ws:// or wss://',
  [ProxyRange]: 'must be an IP address or a range such as 10.0.0.0/8',
  [DatabaseUrl]: 'must be empty, mysql://user:password@host:3306/name or sqlite:path',
  [MysqlUrl]: 'must be empty, or mysql://user:password@host:3306/name',
  [LogHost]: 'must be a host name in small letters such as example.com, without a scheme',
  [WitnessAddress]: 'must be a verifier key, @ and an address: name+id+key@https://witness.example',
  [NodeName]: 'must be 1 to 32 small letters, digits or dashes, and must not begin with a dash',
  [NodeNameOrNone]:
    'must be empty, or 1 to 32 small letters, digits or dashes that do not begin with a dash',
  [NatsUrl]: 'must be empty, or an address that begins with nats:// or tls://',
  [AssetName]: 'must be 1 to 16 capital letters or digits, such as BTC',
  ...Object.fromEntries(
    Object.values(PRICE_PROVIDERS).map(({ naming }) => [naming.pattern, `must be ${naming.form}`]),
  ),
}
