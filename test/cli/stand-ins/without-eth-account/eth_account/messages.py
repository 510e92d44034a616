"""The one function of eth_account.messages that the example calls, with its parameters."""


def encode_typed_data(domain_data, message_types, message_data):
    (primary_type,) = message_types
    values = {
        name: "0x" + value.hex() if isinstance(value, bytes) else str(value) if isinstance(value, int) else value
        for name, value in message_data.items()
    }
    return {"domain": domain_data, "types": message_types, "primaryType": primary_type, "message": values}
