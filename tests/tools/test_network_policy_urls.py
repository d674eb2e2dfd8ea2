"""Which URLs and addresses are accepted, and that no disguised host is."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.tools.base import ToolError
from ask.tools.network_policy import is_ip_address, is_public_address, parse_url

MAPPED = IPv6Address("::ffff:7f00:1").compressed
"""An IPv4 address in IPv6 notation, which Python 3.13 writes with dots."""


@pytest.mark.parametrize(
    ("url", "host", "fetched"),
    [
        ("http://example.com", "example.com", "http://example.com/"),
        (" HTTPS://Example.COM./a?b#c ", "example.com", "https://example.com/a?b"),
        ("https://example.com:443?q=1", "example.com", "https://example.com/?q=1"),
        ("http://example.com:/", "example.com", "http://example.com/"),
        ("http://example.com:8080//x", "example.com", "http://example.com:8080//x"),
        ("http://bücher.example/ü x", "xn--bcher-kva.example", "http://xn--bcher-kva.example/ü x"),
        ("http://\uff25xample\u3002com/", "example.com", "http://example.com/"),
        ("http://under_score.example/", "under_score.example", "http://under_score.example/"),
        ("http://8.8.8.8/", "8.8.8.8", "http://8.8.8.8/"),
        ("http://\uff11\uff12\uff17.0.0.1/", "127.0.0.1", "http://127.0.0.1/"),
        ("http://[2606:4700:0::1]:81/", "2606:4700::1", "http://[2606:4700::1]:81/"),
        ("http://[::FFFF:127.0.0.1]/", MAPPED, f"http://[{MAPPED}]/"),
        ("http://allowed.com.evil.test/", "allowed.com.evil.test", "http://allowed.com.evil.test/"),
        ("http://evil.test/@allowed.com", "evil.test", "http://evil.test/@allowed.com"),
        ("http://evil.test?@allowed.com/", "evil.test", "http://evil.test/?@allowed.com/"),
        ("http://evil.test#@allowed.com/", "evil.test", "http://evil.test/"),
    ],
)
def test_host_is_normalized(url: str, host: str, fetched: str) -> None:
    assert parse_url(url).host == host
    assert parse_url(url).url == fetched


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.com", "//example.com/", "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)"),
        *("http:/example.com", "http://", "http:///x", "http://:80/", "https://?x", "http://./", "http://a..b/"),
        *("http://allowed.com@evil.test/", "http://user:password@example.com/", "http://@example.com/"),
        *("http://allowed.com%00.evil.test/", "http://ex%61mple.com/", "http://127.0.0.1%2f/", "http://\uff0561.com/"),
        *("http://allowed.com\\@evil.test/", "http://allowed.com\\.evil.test/", "http:\\\\example.com/"),
        *("http://exa\tmple.com/", "http://exa\nmple.com/", "http://example.com/\r\nX: y", "http://example.com\0/"),
        *("http://exa mple.com/", "http://example.com /", "http://a,b/", "http://a'b/", "http://$x/", "http://*.com/"),
        *("http://example.com:0/", "http://example.com:65536/", "http://example.com:8o/", "http://example.com:-1/"),
        *("http://example.com:80:80/", "http://::1/", "http://[::1/", "http://::1]/", "http://[::1]x/"),
        *("http://[fe80::1%eth0]/", "http://[fe80::1%25eth0]/", "http://[12345::]/", "http://[127.0.0.1]/"),
        *("http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/"),
        *(
            "http://0/",
            "http://127.0.0.1.0/",
            "http://127.0.0.01/",
            "http://256.1.1.1/",
            "http://a.0x/",
            "http://1.2.3/",
        ),
        *(
            "http://①②⑦.1/",
            "http://\ud800.com/",
            "http://\u202emoc.test/",
            f"http://{'a' * 64}.com/",
            f"http://{'a.' * 127}b/",
        ),
    ],
)
def test_ambiguous_url_is_refused(url: str) -> None:
    with pytest.raises(ToolError, match=r"^not fetched: "):
        parse_url(url)


@given(
    st.text(alphabet="htps:/@%\\[]#?.\t\0 .1270xaé\u3002\uff05\uff1a\uff0f", max_size=30).map(
        lambda rest: "http://" + rest
    )
)
def test_other_parsers_find_the_same_host(url: str) -> None:
    try:
        target = parse_url(url)
    except ToolError:
        return
    parts = urlsplit(target.url)
    assert (parts.scheme, parts.hostname, parts.username) == ("http", target.host, None)
    assert (parts.port or 80) == target.port
    assert parse_url(target.url).host == target.host
    assert target.host.isascii()
    if is_ip_address(target.host):
        ip_address(target.host)


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused_in_one_line(text: str) -> None:
    try:
        parse_url(text)
    except ToolError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.255", "169.254.169.254"),
        *("168.63.129.16", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1"),
        *("198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::8.8.8.8", "64:ff9b::127.0.0.1"),
        *("64:ff9b::a9fe:a9fe", "64:ff9b:1::8.8.8.8", "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
        *("2001:db8::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254"),
        *("fe80::1", "fe80::1%eth0", "2606:4700::1%1", "fec0::1", "ff02::1", "::ffff:0:127.0.0.1", "4000::1"),
    ],
)
def test_non_public_address_is_recognized(address: str) -> None:
    assert not is_public_address(address)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "1.1.1.1",
            "8.8.8.8",
            "93.184.215.14",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "223.255.0.1",
        ),
        *("223.255.0.1", "2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450::1", "64:ff9b::8.8.8.8"),
    ],
)
def test_public_address_is_recognized(address: str) -> None:
    assert is_public_address(address)


@given(st.ip_addresses())
def test_private_addresses_of_ipaddress_are_not_public(address: IPv4Address | IPv6Address) -> None:
    # The library learns more blocks with every version. The reverse does not hold: it also lists blocks that we allow.
    if is_public_address(str(address)) and address not in ip_network("64:ff9b::/96"):
        assert address.is_global
        assert not (address.is_multicast or address.is_reserved or address.is_loopback or address.is_link_local)


@given(st.ip_addresses(v=4))
def test_embedded_ipv4_address_is_checked(address: IPv4Address) -> None:
    dressed = [f"::ffff:{address}", f"::{address}", str(IPv6Address((0x2002 << 112) | int(address) << 80))]
    assert not any(is_public_address(other) for other in dressed)
    assert is_public_address(f"64:ff9b::{address}") == is_public_address(str(address))
